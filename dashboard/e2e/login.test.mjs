// Logging in: by the link of the first start, by a token that is typed in, and out again.
import assert from 'node:assert/strict';
import { checkAccessibility } from './axe.mjs';
import { onEachStore } from './stores.mjs';

onEachStore('logging in', (test) => {
  test('c12_the_link_of_the_first_start_logs_in_and_leaves_no_token_behind', async ({ page, server }) => {
    await page.goto(server.loginLink);
    await page.locator('.frame main h1').first().waitFor();
    assert.match(await page.title(), /Punctual/);
    assert.equal(page.url(), `${server.url}/`);
    const kept = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    assert.ok(!kept.includes(server.token), 'no script can read the token');
    await page.reload();
    await page.locator('.frame main h1').first().waitFor();
    assert.equal(await page.getByLabel('Token').count(), 0, 'the cookie is enough');
  });

  test('c12_whoever_has_no_session_is_asked_for_a_token', async ({ page, watch, server }) => {
    watch.expect(/^401 (GET|POST) .*\/api\/v1\/session$/);
    await page.at('jobs');
    await page.getByLabel('Token').fill('punctual_wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('alert').waitFor();
    await checkAccessibility(page);
    await page.getByLabel('Token').fill(server.token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.locator('.frame main h1').first().waitFor();
    assert.equal(page.url(), `${server.url}/jobs`, 'the page that was asked for is shown');
  });
});

onEachStore(
  'below a path',
  (test) => {
    test('b10_a_dashboard_below_a_path_stays_below_it', async ({ page, server }) => {
      assert.ok(server.url.endsWith('/tools/punctual'));
      await page.goto(server.loginLink);
      await page.locator('.frame main h1').first().waitFor();
      assert.equal(page.url(), `${server.url}/`);
      const outside = [];
      page.on('request', (request) => request.url().startsWith(`${server.url}/`) || outside.push(request.url()));
      await page.at('queues');
      await page.locator('.frame main h1').first().waitFor();
      assert.deepEqual(outside, []);
    });
  },
  { args: ['--base-path', '/tools/punctual'], stores: ['sqlite'] },
);
