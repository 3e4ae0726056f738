// The page's script without a browser: what it does where the surroundings are not as they should be.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

const SCRIPT = readFileSync(new URL("../../waterclock/api/page/page.js", import.meta.url), "utf8");
const HTML = readFileSync(new URL("../../waterclock/api/page/index.html", import.meta.url), "utf8");
const OVERVIEW = { at: "", since: "2026-11-21T09:00:00Z", tiers: [], last_runs: [], last_failures: [] };
const settled = () => new Promise((done) => setTimeout(done, 20));

/** As much of an element as the script asks of one. */
class Thing {
  constructor(hidden = false) {
    Object.assign(this, { hidden, value: "", textContent: "", dataset: {}, rows: [], title: "", className: "" });
    Object.assign(this, { listeners: {}, tBodies: [], tFoot: null });
  }
  get firstElementChild() {
    return (this.first ??= new Thing());
  }
  addEventListener(what, listener) {
    this.listeners[what] = listener;
  }
  setAttribute() {}
  replaceChildren() {}
  deleteRow() {}
  insertRow() {
    return Object.assign(new Thing(), { cells: [], append(cell) { this.cells.push(cell); } });
  }
}

/** A page whose `fetch` answers by `answer`; `more`: other surroundings. */
function open(answer, more = {}) {
  const things = {};
  const byId = (id) => (things[id] ??= new Thing(["key-form", "trouble", "runs-section"].includes(id)));
  for (const table of ["tiers", "runs", "failures"]) {
    Object.assign(byId(table), { tBodies: [new Thing()], tFoot: new Thing() });
  }
  const document = Object.assign(new Thing(), {
    getElementById: byId,
    documentElement: new Thing(),
    visibilityState: "visible",
    querySelectorAll: () => [],
    createElement: () => new Thing(),
  });
  const kept = {};
  const storage = { getItem: (name) => kept[name] ?? null, setItem: (name, value) => (kept[name] = value) };
  const asked = [];
  const page = vm.createContext({
    document,
    sessionStorage: storage,
    localStorage: storage,
    location: new URL("http://127.0.0.1:8080/"),
    history: { replaceState() {} },
    navigator: {},
    HTMLInputElement: class {},
    URL,
    AbortController,
    AbortSignal,
    clearTimeout,
    setTimeout: (what, ms) => setTimeout(what, ms / 100).unref(),
    fetch: async (path, options) => {
      new Headers(options.headers); // throws as that of a browser does
      asked.push(path);
      return answer(path, options);
    },
    ...more,
  });
  vm.runInContext(SCRIPT, page);
  return { byId, asked, kept, document };
}

const refuses = () => ({ ok: false, status: 401, json: async () => ({ detail: "There is no key" }) });
const answers = (path) => (path.endsWith("stream") ? refuses() : { ok: true, status: 200, json: async () => OVERVIEW });

test("what no header can carry is no key: each question would fail as if the server were away", () => {
  const field = HTML.match(/<input id="key"[^>]*>/)[0];
  const pattern = new RegExp(`^(?:${field.match(/pattern="([^"]+)"/)[1]})$`, "v"); // as browsers read it
  for (const key of ["wck_abcd_x-Y_9", " wck_abcd_x\t"]) assert.match(key, pattern);
  for (const none of ["wck_…", "wck_abcd\u200b_x", "wck_é", "two words"]) assert.doesNotMatch(none, pattern);
  assert.match(field, / required /);
  assert.match(field, / title="[^"]+"/);
});

test("a server that takes the question and never answers is told, and asked again", async () => {
  const soon = { timeout: (ms) => AbortSignal.timeout(ms / 500) };
  const never = (_, { signal }) =>
    new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)));
  const { byId, asked } = open(never, { AbortSignal: soon });
  for (let look = 0; look < 50 && asked.length < 2; look++) await settled();
  assert.match(byId("trouble").textContent, /No answer/);
  assert.equal(asked.length >= 2, true);
});

test("where there is no clipboard, as over http from elsewhere, the text is selected", async () => {
  let selected = null;
  const getSelection = () => ({ selectAllChildren: (what) => (selected = what) });
  const { byId, document } = open(answers, { getSelection });
  const button = Object.assign(new Thing(), { dataset: { copies: "empty-cli" }, textContent: "Copy" });
  await document.listeners.click({ target: button });
  assert.equal(selected, byId("empty-cli"));
  assert.match(button.textContent, /Selected/);
});

test("a browser that keeps nothing for us shows the page all the same", async () => {
  const refusing = () => {
    throw new Error("SecurityError");
  };
  const nothing = { getItem: refusing, setItem: refusing };
  const { byId } = open(answers, { sessionStorage: nothing, localStorage: nothing });
  await settled();
  assert.equal(byId("trouble").hidden, true);
  assert.equal(byId("state").dataset.state, "polling");
});
