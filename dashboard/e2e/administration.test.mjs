// Tokens, grants, nodes, the audit log and the settings, as admins and as viewers see them.
import assert from 'node:assert/strict';
import { checkAccessibility } from './axe.mjs';
import { PHONE, requestsDuring } from './browser.mjs';
import { onEachStore } from './stores.mjs';

const PAGES = [
  ['nodes', 'Nodes', /\d\s+nodes?/],
  ['grants', 'Grants', /There is no grant\.|\d\s+grants?/],
  ['grants?tab=accounts', 'Grants', /There is no billing account\.|\d\s+accounts?/],
  ['notifications', 'Notifications', /No alert is open\./],
  ['tokens', 'Tokens', /\d\s+tokens?/],
  ['audit', 'Audit', /\d\s+changes?|Nothing was changed yet\./],
  ['settings', 'Settings', /Slots that fire in a second/],
  ['settings?tab=calendars', 'Settings', /There is no calendar\.|\d\s+calendars?/],
  ['settings?tab=presets', 'Settings', /\d\s+presets/],
  ['settings?tab=templates', 'Settings', /There is no template\.|\d\s+templates?/],
];

onEachStore('administration', (test) => {
  test('b10_each_list_comes_from_one_request', async ({ page }) => {
    await page.logIn();
    for (const [path, title, shown] of PAGES.filter(([path]) => path !== 'settings')) {
      const made = await requestsDuring(page, async () => {
        await page.at(path);
        await page.getByRole('heading', { name: title, level: 1 }).waitFor();
        await page.locator('main').getByText(shown).first().waitFor();
      });
      // What changes without an event is looked at again after a while, which is no other request.
      const different = new Set(made.filter((request) => !request.endsWith('/session')));
      assert.equal(different.size, 1, `${path}: ${[...different].join(', ')}`);
    }
  });

  test('b10_everybody_can_use_these_pages_and_they_fit_a_phone', async ({ page, newPage }) => {
    await page.logIn();
    const phone = await newPage({ viewport: PHONE });
    await phone.page.logIn();
    for (const [path, title, shown] of PAGES) {
      for (const one of [page, phone.page]) {
        await one.at(path);
        await one.getByRole('heading', { name: title, level: 1 }).waitFor();
        await one.locator('main').getByText(shown).first().waitFor();
      }
      await checkAccessibility(page);
      const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.equal(wide, 0, `${path} goes beyond the edge of a phone`);
    }
  });

  test('c12_a_token_is_shown_once_logs_in_by_its_link_and_is_revoked', async ({ page, watch, newPage }) => {
    await page.logIn();
    await page.at('tokens');
    await page.getByRole('button', { name: 'New token' }).click();
    const form = page.getByRole('dialog', { name: 'New token' });
    await form.getByLabel('Name').fill('ann’s <b>laptop</b>');
    await form.getByLabel('Owner').fill('ann');
    await form.getByLabel('Role').selectOption('viewer');
    await form.getByRole('button', { name: 'Make the token' }).click();
    const once = page.getByRole('dialog', { name: 'The token ann’s <b>laptop</b>' });
    const link = await once.getByLabel('Link that logs in').inputValue();
    const secret = await once.getByLabel('Token', { exact: true }).inputValue();
    await checkAccessibility(page);
    await once.getByRole('button', { name: 'I have it' }).click();
    await page.reload();
    await page.getByRole('button', { name: 'Revoke ann’s <b>laptop</b>' }).waitFor();
    assert.ok(!(await page.content()).includes(secret), 'it is shown once');

    const ann = await newPage();
    await ann.page.goto(link);
    await ann.page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    const menu = ann.page.getByRole('navigation', { name: 'Main' });
    assert.equal(await menu.getByRole('link', { name: 'Tokens' }).count(), 0);
    assert.equal(await menu.getByRole('link', { name: 'Audit' }).count(), 0);
    await ann.page.at('tokens');
    await ann.page.getByText('Tokens are for admins.').waitFor();
    await ann.page.at('settings');
    await ann.page.getByLabel(/Slots that fire/).waitFor();
    assert.equal(await ann.page.getByRole('button', { name: 'Save' }).count(), 0);
    await ann.page.at('grants');
    await ann.page.getByText('There is no grant.').waitFor();
    assert.equal(await ann.page.getByRole('button', { name: /New grant|Revoke/ }).count(), 0);

    await page.getByRole('button', { name: 'Revoke ann’s <b>laptop</b>' }).click();
    await page.getByRole('button', { name: 'Revoke the token' }).click();
    await page.getByRole('button', { name: 'Revoke ann’s <b>laptop</b>' }).waitFor({ state: 'detached' });
    watch.check();
    ann.watch.expect(/^401 /);
    await ann.page.reload();
    await ann.page.getByLabel('Token').waitFor();
  });

  test('b10_a_change_of_the_settings_is_in_the_audit_log_with_what_it_was', async ({ page, api }) => {
    await page.logIn();
    await page.at('settings');
    await page.getByLabel(/Slots that fire/).fill('70');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved: it holds for all nodes from now on').waitFor();
    assert.equal((await api.get('/settings')).fires_per_second, 70);
    await page.at('audit');
    const row = page.getByRole('row').filter({ hasText: 'settings.update' }).first();
    await row.getByText('fires_per_second').waitFor();
    assert.match(await row.innerText(), /fires_per_second\s+null\s+→\s+70/);
    await row.locator('summary').click();
    await row.getByLabel('After').getByText('"fires_per_second": 70').waitFor();
    await checkAccessibility(page);
    await row.getByRole('link', { name: 'only this' }).click();
    await page.waitForURL((url) => url.searchParams.get('subject') === 'settings');
  });

  test('b10_a_change_of_somebody_else_comes_into_the_audit_log_by_itself', async ({ page, api }) => {
    await page.logIn();
    await page.at('audit');
    await page.getByRole('heading', { name: 'Audit', level: 1 }).waitFor();
    await api.schedule('made-elsewhere', 'true');
    const row = page.getByRole('row').filter({ hasText: 'schedule.create' }).first();
    await row.getByText('made', { exact: true }).waitFor();
    await row.locator('summary').click();
    await row.getByLabel('After').getByText('made-elsewhere').waitFor();
  });

  test('b11_a_grant_is_made_and_revoked', async ({ page, api }) => {
    await page.logIn();
    await page.at('grants');
    await page.getByRole('button', { name: 'New grant' }).click();
    const form = page.getByRole('dialog', { name: 'New grant' });
    await form.getByLabel('Billing account').fill('acme');
    await form.getByLabel('Graphs').fill('flow:etl');
    await form.getByLabel('Runs at most').fill('10');
    await checkAccessibility(page);
    await form.getByRole('button', { name: 'Make the grant' }).click();
    await page.getByRole('button', { name: /^Revoke the grant/ }).click();
    await page.getByRole('dialog').getByText('grant_revoked').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the grant' }).click();
    await page.getByRole('button', { name: /^Revoke the grant \S/ }).waitFor({ state: 'detached' });
    const { items } = await api.get('/grants');
    assert.deepEqual(items[0].scopes, ['graph:execute:flow:etl']);
    assert.ok(items[0].revoked_at);
    await page.getByRole('link', { name: 'Billing accounts' }).click();
    await page.getByRole('button', { name: 'Usage of acme' }).click();
    await page.getByText('Nothing.').waitFor();
  });

  test('b10_the_doctor_says_what_is_wrong_and_what_to_do', async ({ page, api }) => {
    await api.ended((await api.shell('true', { queue: 'stopped' })).id);
    await api.patch('/queues/stopped', { paused: true });
    await api.shell('true', { queue: 'stopped' });
    await page.logIn();
    await page.at('settings?tab=doctor');
    await page.getByRole('button', { name: 'Examine now' }).click();
    await page
      .getByText('stopped: 1 jobs waiting')
      .or(page.getByText(/^stopped: 1 job/))
      .first()
      .waitFor();
    await page.getByText(/resume the queue/).waitFor();
    await checkAccessibility(page);
  });
});
