// The page: how runs stand, live.
//
// The server counts (GET /api/v1/overview); nothing is decided here. The stream of run events only says that something
// happened: then the overview is asked for, at most three times a second. Without a stream it is asked for every two
// seconds. What others wrote (names, errors) becomes text and never markup: nothing here sets innerHTML.

const OVERVIEW = "/api/v1/overview";
const STREAM = "/api/v1/stream";
const ASK_AGAIN_MS = 333;
const POLL_LIVE_MS = 5_000;
const POLL_MS = 2_000;
const BACKOFF_MS_MAX = 30_000;
const ANSWER_MS_MAX = 10_000;

const SIGNS = { PENDING: "…", RUNNING: "▶", RETRYING: "↻", SUCCEEDED: "✓", FAILED: "✗", CANCELLED: "■", SKIPPED: "-" };
const STATES = { starting: "○", live: "●", polling: "◐", away: "✗", paused: "❚❚" };
const THEMES = ["auto", "light", "dark"];

const byId = (id) => document.getElementById(id);
const page = {
  paused: false,
  key: kept("sessionStorage", "key") ?? "",
  overview: null,
  stream: null, // AbortController of the open stream
  streams: false, // whether it has begun to answer
  failures: 0, // of the stream, in a row
  asking: false,
  askAgain: false,
  timer: 0,
};

/** What the browser keeps for us. A browser may be told to keep nothing: then asking throws. */
function kept(where, name) {
  try {
    return globalThis[where].getItem(name);
  } catch {
    return null;
  }
}

function keep(where, name, value) {
  try {
    globalThis[where].setItem(name, value);
  } catch {
    // it lasts as long as the page
  }
}

// Asking -------------------------------------------------------------------------------------------------------------

const watching = () => !page.paused && document.visibilityState === "visible";

function headers(accept) {
  return page.key ? { accept, authorization: `Bearer ${page.key}` } : { accept };
}

/** Ask for the overview now, or as soon as the question under way is answered. */
async function ask() {
  if (!watching()) return;
  if (page.asking) {
    page.askAgain = true;
    return;
  }
  page.asking = true;
  page.askAgain = false;
  clearTimeout(page.timer);
  try {
    // Bounded: after a sleep or a change of network a connection may be dead, and nobody say so for minutes.
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const answer = await fetch(OVERVIEW, { headers: headers("application/json"), cache: "no-store", signal });
    if (answer.ok) {
      page.overview = await answer.json();
      byId("key-form").hidden = true;
      tellTrouble("");
      show();
      follow();
    } else {
      await refused(answer);
    }
  } catch {
    tellTrouble("No answer from the server. It is asked again every two seconds.");
  }
  tellState();
  await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
  page.asking = false;
  if (page.askAgain) ask();
  else page.timer = setTimeout(ask, page.streams ? POLL_LIVE_MS : POLL_MS);
}

async function refused(answer) {
  const problem = await answer.json().catch(() => ({}));
  const noAccess = answer.status === 401 || answer.status === 403;
  byId("key-form").hidden = !noAccess;
  if (noAccess) forget();
  const said = [problem.detail ?? `The server answered ${answer.status}.`, problem.hint].filter(Boolean);
  tellTrouble(said.join(" "));
}

/** Open the stream where none is open. */
async function follow() {
  if (page.stream || !watching()) return;
  const stream = (page.stream = new AbortController());
  try {
    const answer = await fetch(STREAM, { headers: headers("text/event-stream"), signal: stream.signal });
    if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
    page.streams = true;
    page.failures = 0;
    tellState();
    ask(); // what happened between the overview and the stream
    await read(answer.body);
  } catch {
    // told by the state: it polls
  }
  page.streams = false;
  if (page.stream !== stream) return;
  tellState();
  const waitMs = Math.min(BACKOFF_MS_MAX, 1_000 * 2 ** page.failures++) * (0.5 + Math.random() / 2);
  setTimeout(() => {
    if (page.stream === stream) page.stream = null; // the next answer opens it again
  }, waitMs);
}

/** Read to the end. What an event says is not looked at: the overview tells. */
async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    if (value.includes("data:")) ask();
  }
}

/** What was shown is not this person's to see any more. */
function forget() {
  page.overview = null;
  for (const id of ["empty", "runs-section", "failures-section"]) byId(id).hidden = true;
  for (const body of document.querySelectorAll("tbody, tfoot")) body.replaceChildren();
}

function stop() {
  clearTimeout(page.timer);
  page.stream?.abort();
  page.stream = null;
  page.streams = false;
}

function goOnOrStop() {
  if (watching()) ask();
  else stop();
  tellState();
}

// Showing ------------------------------------------------------------------------------------------------------------

function tellState() {
  const away = !byId("trouble").hidden;
  const state = page.paused ? "paused" : away ? "away" : page.streams ? "live" : page.overview ? "polling" : "starting";
  const words = { away: "not up to date", polling: "every 2 s" };
  const shown = byId("state");
  if (shown.dataset.state === state) return;
  shown.dataset.state = state;
  shown.firstElementChild.textContent = STATES[state];
  byId("state-text").textContent = words[state] ?? state;
}

function tellTrouble(text) {
  const shown = byId("trouble");
  if (shown.textContent !== text) shown.textContent = text;
  shown.hidden = !text;
}

function show() {
  const { tiers, last_runs: runs, last_failures: failures, since } = page.overview;
  showTiers(tiers);
  const something = runs.length > 0 || tiers.some((tier) => tier.done + tier.failed + tier.due + tier.running > 0);
  byId("empty").hidden = something;
  byId("runs-section").hidden = !something;
  showRuns(runs);
  byId("failures-section").hidden = failures.length === 0;
  fill(byId("failures").tBodies[0], failures, (run) => [
    { run: run.run_id },
    { text: run.error ?? "" },
    { text: `${run.attempt}` },
  ]);
  const words = `Due and running: now. Done and failing: since ${clock(since)}. `;
  setText(byId("since"), `${words}Lag: records that no worker has claimed, of all tenants.`);
}

function showTiers(tiers) {
  const row = (tier) => [
    { text: tier.tier, header: true },
    count(tier.due, "due"),
    count(tier.running, "running"),
    count(tier.done, "done"),
    { ...count(tier.failed, "failing"), text: `${tier.failed}${tier.retrying ? ` ↻ ${tier.retrying}` : ""}` },
    tier.lag === null ? { text: "?", title: "not known" } : count(tier.lag, ""),
  ];
  const sum = (name) => tiers.reduce((all, tier) => all + tier[name], 0);
  const all = { tier: "all", lag: tiers.some((tier) => tier.lag === null) ? null : sum("lag") };
  for (const name of ["due", "running", "retrying", "done", "failed"]) all[name] = sum(name);
  fill(byId("tiers").tBodies[0], tiers, row);
  fill(byId("tiers").tFoot, [all], row);
}

function showRuns(runs) {
  const wanted = byId("filter").value.trim().toLowerCase();
  const fits = (run) => `${run.run_id} ${run.tier} ${run.status}`.toLowerCase().includes(wanted);
  const shown = wanted ? runs.filter(fits) : runs;
  byId("none-fit").hidden = shown.length > 0 || runs.length === 0;
  fill(byId("runs").tBodies[0], shown, (run) => [
    { run: run.run_id },
    { text: run.tier },
    { text: `${SIGNS[run.status] ?? "?"} ${run.status}`, kind: run.status in SIGNS ? run.status : "" },
    { text: lasted(run.fire_time, run.visible_at) },
    { text: lasted(run.fire_time, run.started_at) },
    { text: lasted(run.started_at, run.ended_at) },
  ]);
}

const count = (number, kind) => ({ text: number.toLocaleString("en"), kind: number ? kind : "zero" });

/** One row for each thing, reusing what is there: only what differs is touched. A run that is new is marked. */
function fill(body, things, cellsOf) {
  const known = new Set(Array.from(body.rows, (row) => row.dataset.of));
  while (body.rows.length > things.length) body.deleteRow(-1);
  things.forEach((thing, at) => {
    const row = body.rows[at] ?? body.insertRow();
    const name = thing.run_id ?? thing.tier;
    if (row.dataset.of !== name) {
      row.dataset.of = name;
      row.className = known.size && !known.has(name) ? "fresh" : "";
    }
    cellsOf(thing).forEach((cell, column) => fillCell(row, column, cell));
  });
}

function fillCell(row, column, { text, kind = "", run, header = false, title = "" }) {
  let cell = row.cells[column];
  if (!cell) {
    cell = document.createElement(header ? "th" : "td");
    if (header) cell.scope = "row";
    row.append(cell);
  }
  if (cell.className !== (run === undefined ? kind : "run")) cell.className = run === undefined ? kind : "run";
  if (cell.title !== (run ?? title)) cell.title = run ?? title;
  if (run === undefined) setText(cell, text);
  else setText(cell.firstElementChild ?? cell.appendChild(document.createElement("a")), run, runAddress(run));
}

function setText(element, text, address) {
  if (element.textContent !== text) element.textContent = text;
  if (address !== undefined && element.getAttribute("href") !== address) element.setAttribute("href", address);
}

/** Where the run's JSON is; none where a key is needed: a link cannot carry it. */
const runAddress = (run) => (page.key ? undefined : `/api/v1/runs/${encodeURIComponent(run)}`);

function lasted(from, to) {
  if (!from || !to) return "";
  const ms = Date.parse(to) - Date.parse(from);
  return Math.abs(ms) < 10_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

const clock = (instant) => new Date(instant).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

// What a person does -------------------------------------------------------------------------------------------------

function pause() {
  page.paused = !page.paused;
  byId("pause").setAttribute("aria-pressed", `${page.paused}`);
  byId("pause").textContent = page.paused ? "Go on" : "Pause";
  goOnOrStop();
}

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  keep("localStorage", "theme", name);
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "auto";
  theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function filter() {
  const address = new URL(location.href);
  const wanted = byId("filter").value.trim();
  if (wanted) address.searchParams.set("q", wanted);
  else address.searchParams.delete("q");
  history.replaceState(null, "", address);
  if (page.overview) show();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "Escape" && event.target === byId("filter")) {
    byId("filter").value = "";
    filter();
    byId("filter").blur();
  } else if (typing) {
    return;
  } else if (event.key === "/" && !byId("runs-section").hidden) {
    event.preventDefault();
    byId("filter").focus();
  } else if (event.key === "p") pause();
  else if (event.key === "t") nextTheme();
}

function useKey(event) {
  event.preventDefault();
  page.key = byId("key").value.trim();
  byId("key").value = "";
  keep("sessionStorage", "key", page.key);
  stop();
  ask();
}

async function copy(event) {
  const of = event.target.dataset?.copies;
  if (!of) return;
  try {
    await navigator.clipboard.writeText(byId(of).textContent);
    event.target.textContent = "Copied";
  } catch {
    // over http from another machine there is no clipboard
    getSelection().selectAllChildren(byId(of));
    event.target.textContent = "Selected";
  }
}

theme(THEMES.find((name) => name === kept("localStorage", "theme")) ?? "auto");
byId("filter").value = new URL(location.href).searchParams.get("q") ?? "";
const hello = JSON.stringify({ name: "hello", every: "5s", handler: "demo.echo", payload: "hello" });
byId("empty-http").textContent = `curl -d '${hello}' -H 'content-type: application/json' ${location.origin}/api/v1/jobs`;
byId("pause").addEventListener("click", pause);
byId("theme").addEventListener("click", nextTheme);
byId("filter").addEventListener("input", filter);
byId("key-form").addEventListener("submit", useKey);
document.addEventListener("click", copy);
document.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", goOnOrStop);
ask();
