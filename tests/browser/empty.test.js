// Nothing has run yet, and the page says what to do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { aBrowser, becomes, isAccessible, PAGE } from "./browser.js";

const browser = aBrowser();

test("an empty page shows commands that make a job", async () => {
  const { page, sins } = await browser.open();
  await page.locator("#empty").waitFor();
  await becomes(page, "live");
  assert.match(await page.locator("#empty-cli").textContent(), /^waterclock job create hello /);
  const http = await page.locator("#empty-http").textContent();
  assert.ok(http.includes(`${PAGE}/api/v1/jobs`), http);
  assert.equal(await page.locator("#runs-section").isVisible(), false);
  assert.deepEqual(sins, []);
});

for (const colorScheme of ["light", "dark"]) {
  test(`an empty page is accessible, ${colorScheme}`, async () => {
    const { page } = await browser.open("/", { colorScheme });
    await page.locator("#empty").waitFor();
    await isAccessible(page);
  });
}
