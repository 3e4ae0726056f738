// Runs appear by themselves, hostile names stay text, and everything works from the keyboard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { aBrowser, ask, becomes, isAccessible, state, texts } from "./browser.js";

const NAMES = JSON.parse(process.env.NAMES);
const ERRORS = JSON.parse(process.env.ERRORS);
const browser = aBrowser();

test("hostile names and errors are shown as text and never run, also without the CSP", async () => {
  for (const bypassCSP of [false, true]) {
    const { page, sins } = await browser.open("/", { bypassCSP });
    await page.locator("#failures-section").waitFor();
    const runs = await texts(page, "#runs tbody tr td:first-child");
    const missing = NAMES.filter((text) => !runs.some((run) => run.includes(text)));
    assert.deepEqual(missing, [], runs.join("\n"));
    const errors = await texts(page, "#failures tbody tr td:nth-child(2)");
    assert.deepEqual(errors.toSorted(), ERRORS.toSorted());
    const made = await page.locator("tbody *").evaluateAll((all) => [...new Set(all.map((each) => each.localName))]);
    assert.deepEqual(made.sort(), ["a", "td", "th", "tr"]);
    const links = await page.locator("tbody a").evaluateAll((all) => all.map((each) => each.href));
    assert.ok(links.every((link) => link.startsWith(`${new URL(page.url()).origin}/api/v1/runs/`)), links.join(" "));
    await page.waitForTimeout(500); // time for what must not happen
    assert.equal(await page.evaluate("window.fired"), undefined);
    assert.deepEqual(sins, []);
  }
});

test("a run appears live, without a reload", async () => {
  const { page, sins } = await browser.open();
  await becomes(page, "live");
  await page.evaluate(() => {
    window.seen = {}; // a reload would forget it
    new MutationObserver(() => {
      for (const row of document.querySelectorAll("#runs tbody tr")) {
        if (row.textContent.includes("SUCCEEDED")) window.seen[row.dataset.of] ??= Date.now();
      }
    }).observe(document.querySelector("#runs"), { subtree: true, childList: true, characterData: true });
  });
  const job = JSON.stringify({ name: "live", every: "1s", handler: "demo.ping", tier: "high" });
  await ask("/api/v1/jobs", { method: "POST", body: job });
  await page.waitForFunction(() => Object.keys(window.seen).filter((run) => run.startsWith("default:live@")).length >= 5);
  const seen = await page.evaluate("window.seen");
  const { last_runs: runs, tiers } = await ask("/api/v1/overview");
  const lateMs = runs.filter((run) => run.run_id in seen).map((run) => seen[run.run_id] - Date.parse(run.ended_at));
  lateMs.sort((one, other) => one - other);
  console.log(JSON.stringify({ figure: "milliseconds from the end of a run until the page shows it", value: lateMs }));
  assert.ok(lateMs[Math.floor(lateMs.length / 2)] < 1_500, `shown after ${lateMs} ms: that is no live page`);
  const statuses = await texts(page, "#runs tbody td:nth-child(3)");
  for (const told of ["✓ SUCCEEDED", "✗ FAILED"]) assert.ok(statuses.includes(told), statuses.join(", "));
  const high = await texts(page, "#tiers tbody tr:first-child > *");
  assert.equal(high[0], "high");
  assert.ok(Number(high[3]) >= 5 && Number(high[3]) <= tiers[0].done, `done: ${high[3]} of ${tiers[0].done}`);
  assert.match(high[5], /^\d+$/);
  assert.deepEqual(sins, []);
});

test("without the stream the page polls, and says so", async () => {
  const { page } = await browser.open("/docs");
  await page.route("**/api/v1/stream", (route) => route.abort());
  await page.goto(new URL("/", page.url()).href);
  await becomes(page, "polling");
  const newest = () => page.locator("#runs tbody tr:first-child").getAttribute("data-of");
  const before = await newest();
  await page.waitForFunction((run) => document.querySelector("#runs tbody tr").dataset.of !== run, before);
  assert.equal(await state(page), "polling");
});

test("a server that does not answer is told, and the page comes back by itself", async () => {
  const { page } = await browser.open();
  await becomes(page, "live");
  await page.route("**/api/v1/**", (route) => route.abort());
  await becomes(page, "away");
  assert.match(await page.locator("#trouble").textContent(), /No answer/);
  await page.unroute("**/api/v1/**");
  await becomes(page, "live");
  assert.equal(await page.locator("#trouble").isVisible(), false);
});

test("everything works from the keyboard, and the filter stands in the address", async () => {
  const { page } = await browser.open();
  await page.locator("#runs-section").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("live@");
  assert.equal(new URL(page.url()).searchParams.get("q"), "live@");
  assert.ok((await texts(page, "#runs tbody td:first-child")).every((run) => run.includes("live@")));
  const again = await browser.open(`/${new URL(page.url()).search}`);
  await again.page.locator("#runs-section").waitFor();
  assert.ok((await texts(again.page, "#runs tbody td:first-child")).every((run) => run.includes("live@")));
  await page.keyboard.press("Escape");
  assert.equal(new URL(page.url()).search, "");
  await page.keyboard.press("p");
  await becomes(page, "paused");
  await page.keyboard.press("p");
  await becomes(page, "live");
  await page.keyboard.press("t");
  await page.keyboard.press("t");
  assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
  await page.reload();
  assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
  await page.locator("#runs-section").waitFor();
  const reached = new Set();
  for (let press = 0; press < 6; press++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate("document.activeElement.id || document.activeElement.localName"));
  }
  for (const wanted of ["pause", "theme", "filter", "a"]) assert.ok(reached.has(wanted), [...reached].join(" "));
});

for (const colorScheme of ["light", "dark"]) {
  test(`the page is accessible, ${colorScheme}`, async () => {
    const { page } = await browser.open("/", { colorScheme });
    await page.locator("#failures-section").waitFor();
    await page.keyboard.press("p"); // nothing moves under axe
    if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/page-${colorScheme}.png` });
    await isAccessible(page);
  });
}
