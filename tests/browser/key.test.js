// Where keys are asked for, the page asks for one, keeps it in its tab, and shows that tenant's runs alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { aBrowser, becomes, isAccessible } from "./browser.js";

const browser = aBrowser();

test("without a key the page shows nothing but the question for one", async () => {
  const { page } = await browser.open();
  await page.locator("#key-form").waitFor();
  assert.equal(await page.locator("#runs tbody tr").count(), 0);
  await isAccessible(page);
});

test("a wrong key is refused in words", async () => {
  const { page } = await browser.open();
  await page.locator("#key").fill("wck_no_key");
  await page.keyboard.press("Enter");
  await page.locator("#trouble", { hasText: "no key" }).waitFor();
});

test("with a key the page is live, and knows the key only in this tab", async () => {
  const { page, sins } = await browser.open();
  await page.locator("#key").fill(process.env.KEY);
  await page.keyboard.press("Enter");
  await becomes(page, "live");
  await page.locator("#runs-section").waitFor();
  assert.equal(await page.locator("#key-form").isVisible(), false);
  assert.equal(await page.evaluate("localStorage.getItem(\"key\")"), null);
  assert.equal(page.url().includes("wck"), false);
  const other = await browser.open();
  await other.page.locator("#key-form").waitFor();
  assert.deepEqual(sins, []);
});

test("another tenant's key shows none of these runs", async () => {
  const { page } = await browser.open();
  await page.locator("#key").fill(process.env.OTHER_KEY);
  await page.keyboard.press("Enter");
  await page.locator("#empty").waitFor();
  assert.equal(await page.locator("#runs tbody tr").count(), 0);
});
