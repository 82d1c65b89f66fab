// What stands around every page: the stream of events, the keyboard, the palette, the theme and the zone.
import assert from 'node:assert/strict';
import { onEachStore } from './stores.mjs';

const rows = (page) => page.locator('tbody tr');

/** Rows of the list of jobs that are in sight. */
async function until(page, count) {
  await page.waitForFunction((count) => document.querySelectorAll('tbody tr').length === count, count);
}

onEachStore('the frame', (test) => {
  test('b10_the_server_is_lost_and_regained', async ({ page, watch, server, api }) => {
    watch.expect(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/);
    const first = await api.shell('true', { queue: 'lost' });
    await page.logIn();
    await page.at('jobs?q=queue:lost');
    await until(page, 1);
    await page.getByRole('button', { name: /^Live/ }).waitFor();
    await server.kill();
    await page.getByRole('alert').filter({ hasText: 'STALE' }).waitFor();
    assert.equal(await rows(page).count(), 1, 'what was known is still shown');
    await server.startAgain();
    await page.getByRole('button', { name: /^Live/ }).waitFor();
    await page.getByRole('alert').waitFor({ state: 'detached' });
    const second = await api.shell('true', { queue: 'lost' });
    await until(page, 2);
    await page.getByRole('button', { name: /^Live/ }).waitFor();
    await api.ended(second.id);
    await api.ended(first.id);
  });

  test('b10_keys_that_do_something_by_themselves_are_switched_off', async ({ page }) => {
    await page.logIn();
    await page.at('settings');
    await page.getByLabel('Keys do something by themselves').uncheck();
    await page.reload();
    await page.getByRole('heading', { name: 'This browser' }).waitFor();
    assert.equal(await page.getByLabel('Keys do something by themselves').isChecked(), false, 'it is kept');
    await page.keyboard.press('?');
    // Keys are heard one after the other: when this one has done its work, the first did nothing.
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Go to' }).waitFor();
    assert.equal(await page.getByRole('dialog', { name: 'Keyboard' }).count(), 0);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
    await page.getByRole('dialog', { name: 'Keyboard' }).getByText('are switched off').waitFor();
    await page.keyboard.press('Escape');
    await page.getByLabel('Keys do something by themselves').check();
    await page.getByRole('heading', { name: 'This browser' }).click();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard' }).getByText('can be switched off').waitFor();
  });

  test('b10_what_is_paused_stays_as_it_is', async ({ page, api }) => {
    const before = await api.shell('true', { queue: 'still' });
    await api.ended(before.id);
    await page.logIn();
    await page.at('jobs?q=queue:still');
    await until(page, 1);
    await page.getByRole('button', { name: /^Live/ }).waitFor();
    await page.keyboard.press('p');
    await page.getByText('Live updates are paused').waitFor();
    const asked = [];
    page.on('request', (request) => request.url().includes('/api/v1/') && asked.push(request.url()));
    // Another page is told of it: then it would have been here, too.
    const { page: other } = await watching(page, api);
    await other.close();
    // Coming back to the window asks for nothing either.
    await page.evaluate(() => {
      window.dispatchEvent(new Event('focus'));
      document.dispatchEvent(new Event('visibilitychange'));
    });
    assert.equal(await rows(page).count(), 1);
    assert.deepEqual(asked, []);
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await until(page, 2);
  });

  /** A second page of the same person sees a new job come. */
  async function watching(page, api) {
    const other = await page.context().newPage();
    await other.goto(page.url());
    await until(other, 1);
    await other.getByRole('button', { name: /^Live/ }).waitFor();
    await api.shell('true', { queue: 'still' });
    await until(other, 2);
    return { page: other };
  }

  test('b10_everything_can_be_reached_by_keyboard', async ({ page, api }) => {
    await api.schedule('alpha <b>one</b>', 'true');
    await api.schedule('beta', 'true');
    await page.logIn();
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keyboard' });
    await help.getByText('search this list').waitFor();
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'detached' });
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await page.getByRole('link', { name: 'beta' }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'beta');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'alpha <b>one</b>' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Page, schedule or job' }).fill('bet');
    await page.getByRole('option', { name: 'beta' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'beta' }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'alpha <b>one</b>' }).waitFor();
  });

  test('b10_theme_and_zone_are_chosen_and_kept', async ({ page }) => {
    await page.logIn();
    const background = () => page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);
    const light = await background();
    await page.getByLabel('Theme').selectOption('dark');
    assert.notEqual(await background(), light);
    await page.getByLabel('Time zone').selectOption('utc');
    await page.getByText(/^\d\d:\d\d UTC$/).waitFor();
    await page.reload();
    await page.getByText(/^\d\d:\d\d UTC$/).waitFor();
    assert.notEqual(await background(), light);
  });

  test('b10_an_address_that_leads_nowhere_says_so', async ({ page, watch }) => {
    watch.expect(/^404 GET .*\/schedules\/nobody/);
    await page.logIn();
    await page.at('no/such/page');
    await page.getByText('There is nothing at this address.').waitFor();
    await page.at('schedules/nobody');
    await page.getByRole('alert').first().waitFor();
  });
});
