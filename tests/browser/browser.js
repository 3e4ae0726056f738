// A real chromium on the page, and an eye on what the page must never do: ask elsewhere, open dialogs, log errors.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

export const PAGE = process.env.PAGE_URL;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Without the networking flags the browser opens connections of its own.
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** One browser for the tests of a file; `open` gives each test a page of its own. */
export function aBrowser() {
  let browser;
  before(async () => {
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
  });
  after(() => browser?.close());
  return {
    async open(path = "/", options = {}) {
      const context = await browser.newContext({ colorScheme: "light", ...options });
      const page = await context.newPage();
      const sins = [];
      page.on("dialog", (dialog) => sins.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
      page.on("pageerror", (error) => sins.push(`error: ${error.message}`));
      page.on("request", (asked) => new URL(asked.url()).origin === PAGE || sins.push(`asked: ${asked.url()}`));
      await page.goto(PAGE + path);
      return { page, sins };
    },
  };
}

export const texts = (page, selector) => page.locator(selector).allTextContents();
export const state = (page) => page.locator("#state").getAttribute("data-state");

export async function becomes(page, wanted) {
  await page.locator(`#state[data-state="${wanted}"]`).waitFor();
}

export async function isAccessible(page) {
  const found = await page.evaluate(`${AXE}; axe.run()`);
  const told = found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`);
  assert.deepEqual(told, []);
  assert.ok(found.passes.length > 10, "axe looked at nothing");
}

export async function ask(path, options = {}) {
  const headers = { "content-type": "application/json", ...options.headers };
  const answer = await fetch(PAGE + path, { ...options, headers });
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}
