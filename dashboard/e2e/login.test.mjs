// Logging in: by the link of the first start, by a token that is typed in, and out again.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
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

  test('c12_what_was_typed_stays_when_the_session_ends', async ({ page, watch, context, server }) => {
    watch.expect(/^401 /);
    await page.logIn();
    await page.at('new/schedule?name=typed');
    await page.getByRole('textbox', { name: 'Command' }).fill('true');
    await context.clearCookies();
    // The preview may notice it first, and the dialog then stands before the button.
    await page.getByRole('button', { name: 'Make the schedule' }).dispatchEvent('click');
    const dialog = page.getByRole('dialog', { name: 'Log in again' });
    await dialog.getByLabel('Token').fill(server.token);
    await checkAccessibility(page);
    await dialog.getByRole('button', { name: 'Log in', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Live/ }).waitFor();
    await page.getByRole('button', { name: 'Make the schedule' }).click();
    await page.getByRole('heading', { level: 1, name: 'typed' }).waitFor();
  });

  test('c12_whoever_logs_out_is_on_the_plain_login_page', async ({ page, watch }) => {
    watch.expect(/^401 /);
    await page.logIn();
    await page.at('settings');
    await page.locator('main').getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { level: 1, name: 'Log in to Punctual' }).waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
  });
});

/** Passes requests below a server's path on to the server, without the path. */
function strippingProxy(url) {
  const { port, pathname } = new URL(url);
  return createServer((asked, answer) => {
    if (!asked.url.startsWith(`${pathname}/`)) return answer.writeHead(502).end();
    const { method, headers } = asked;
    const passed = request({ host: '127.0.0.1', port, method, headers, path: asked.url.slice(pathname.length) });
    passed.on('response', (answered) => {
      answer.writeHead(answered.statusCode, answered.headers);
      answered.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  });
}

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

    test('b10_a_proxy_may_take_the_path_away', async ({ page, server }) => {
      const proxy = strippingProxy(server.url);
      proxy.listen(0, '127.0.0.1');
      await once(proxy, 'listening');
      const address = `http://127.0.0.1:${proxy.address().port}/tools/punctual`;
      try {
        await page.goto(`${address}/#token=${server.token}`);
        await page.locator('.frame main h1').first().waitFor();
        await page.goto(`${address}/queues`);
        await page.locator('.frame main h1').first().waitFor();
        // What the page still listens to ends with the page, and not in the middle of a word.
        await page.goto('about:blank');
      } finally {
        proxy.close();
        proxy.closeAllConnections();
      }
    });
  },
  { args: ['--base-path', '/tools/punctual'], stores: ['sqlite'] },
);
