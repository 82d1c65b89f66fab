// Schedules: made with the cron builder, run, paused, moved, backfilled, edited by two at once, and listed.
import assert from 'node:assert/strict';
import { checkAccessibility } from './axe.mjs';
import { requestsDuring } from './browser.mjs';
import { onEachStore } from './stores.mjs';

const DAY_MS = 86_400_000;
const day = (ahead) => new Date(Date.now() + ahead * DAY_MS).toISOString().slice(0, 10);

/** Opens the page of a schedule, and waits until it is there. */
async function show(page, name, more = '') {
  await page.at(`schedules/${encodeURIComponent(name)}${more}`);
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** Opens a dialog from the menu "More", and gives it back. */
async function openFromMore(page, item) {
  await page.getByText('More', { exact: false }).and(page.locator('summary')).click();
  await page.getByRole('button', { name: item }).click();
  return page.getByRole('dialog');
}

onEachStore('a schedule', (test) => {
  test('b10_a_schedule_is_made_with_the_cron_builder_and_its_next_fires_are_seen', async ({ page, api, watch }) => {
    // An expression that is being typed is no expression yet, and the preview says so.
    watch.expect(/^422 GET .*\/cron\/preview/);
    await page.logIn();
    await page.at('schedules');
    await page.getByRole('link', { name: 'New schedule' }).click();
    await page.getByLabel('Name', { exact: true }).fill('nightly');
    await page.getByRole('textbox', { name: 'Command' }).fill(`sh -c 'echo "two words"'`);
    await page.getByRole('radio', { name: 'Weekly' }).check();
    for (const name of ['Wednesday', 'Thursday', 'Friday']) await page.getByRole('checkbox', { name }).uncheck();
    await page.getByLabel('Time of day').fill('14:30');
    await page.getByLabel('Zone of the schedule').fill('America/New_York');
    await page.getByText('At 14:30, Monday and Tuesday, America/New_York').waitFor();
    await page.getByRole('radio', { name: 'Cron' }).check();
    assert.equal(await page.getByLabel('Cron expression').inputValue(), '30 14 * * 1,2', 'the fields go along');
    await page.getByLabel('Cron expression').fill('30 2 31 2 *');
    await page.getByText('no such date exists in any year').first().waitFor();
    await page.getByLabel('Cron expression').fill('30 2 * * *');
    await page.getByText(/02:30 does not exist on \d{4}-03-\d\d/).waitFor();
    await page.getByLabel('What its jobs are given, as JSON').fill('{"n": 12345678901234567890}');
    await page.getByRole('button', { name: 'Make the schedule' }).click();

    await page.getByRole('heading', { level: 1, name: 'nightly' }).waitFor();
    const made = await api.get('/schedules/nightly');
    assert.equal(made.cron, '30 2 * * *');
    assert.equal(made.timezone, 'America/New_York');
    assert.deepEqual(made.target, { kind: 'command', argv: ['sh', '-c', 'echo "two words"'] });
    const rows = page.locator('section', { hasText: 'Next fires' }).locator('tbody tr');
    await rows.nth(9).waitFor();
    assert.match(
      await rows.first().innerText(),
      /02:30 GMT-[45]\s+\w{3} 0[78]:30\s+in /,
      'in both zones, and how long',
    );
    await page.getByRole('link', { name: 'Definition' }).click();
    await page.getByText('12345678901234567890').first().waitFor();
  });

  test('b10_what_cannot_be_saved_is_told_at_its_field_and_stays', async ({ page, watch, api }) => {
    watch.expect(/^422 (POST .*\/schedules$|GET .*\/cron\/preview)/);
    watch.expect(/^409 POST .*\/schedules$/);
    await api.schedule('taken', 'true');
    await page.logIn();
    await page.at('new/schedule');
    await page.getByRole('button', { name: 'Make the schedule' }).click();
    await page.getByText('give it a name').first().waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-invalid')), 'true');
    await page.getByLabel('Name', { exact: true }).fill('taken');
    await page.getByRole('textbox', { name: 'Command' }).fill('true');
    await page.getByLabel('Zone of the schedule').fill('Nowhere/Land');
    await page.getByRole('button', { name: 'Make the schedule' }).click();
    await page
      .getByRole('combobox', { name: 'Zone of the schedule' })
      .and(page.locator('[aria-invalid=true]'))
      .waitFor();
    await page.getByLabel('Zone of the schedule').fill('UTC');
    await page.getByRole('button', { name: 'Make the schedule' }).click();
    await page.getByRole('alert').filter({ hasText: 'taken' }).waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Command' }).inputValue(), 'true');
  });

  test('b10_it_is_run_now_with_an_input_whose_every_digit_arrives', async ({ page, api }) => {
    const { id } = await api.schedule('by-hand', 'cat');
    await page.logIn();
    await show(page, 'by-hand');
    await page.getByRole('button', { name: 'Run now' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Input').fill('{"n": ');
    assert.ok(await dialog.getByRole('button', { name: 'Run now' }).isDisabled(), 'this is no JSON');
    await dialog.getByLabel('Input').fill('{"n": 98765432109876543210}');
    await dialog.getByRole('button', { name: 'Run now' }).click();
    await page.waitForURL(/\/jobs\//);
    const job = await api.ended(page.url().split('/jobs/')[1]);
    assert.equal(job.schedule_id, id);
    const answer = await fetch(`${api.url}/api/v1/jobs/${job.id}`, {
      headers: { authorization: `Bearer ${api.token}` },
    });
    assert.match(await answer.text(), /"input":\{"n":98765432109876543210\}/);
  });

  test('b10_it_is_paused_with_a_reason_until_a_time_and_resumed', async ({ page, api }) => {
    await api.schedule('to-pause', 'true');
    await page.logIn();
    await show(page, 'to-pause');
    await page.getByRole('switch').click();
    await page.getByLabel('Reason').fill('the <b>disk</b> is full');
    await page.getByLabel('Until (optional)').fill('2040-01-02T10:00');
    await page.getByRole('dialog').getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByText('the <b>disk</b> is full').waitFor();
    await page
      .getByText('Nothing fires until it is resumed.')
      .or(page.getByText('goes on by itself'))
      .first()
      .waitFor();
    const { enabled, paused } = await api.get('/schedules/to-pause');
    assert.equal(enabled, false);
    assert.equal(paused.note, 'the <b>disk</b> is full');
    assert.equal(paused.until, '2040-01-02T10:00:00Z');
    await page.getByRole('switch').click();
    await api.until('/schedules/to-pause', (schedule) => schedule.enabled);
    await page.getByText('the <b>disk</b> is full').waitFor({ state: 'detached' });
  });

  test('b10_its_next_fire_is_moved_and_left_out', async ({ page, api, watch }) => {
    watch.expect(/^422 POST .*\/reschedule$/);
    await api.schedule('to-move', 'true', { cron: '0 3 * * *' });
    await page.logIn();
    await show(page, 'to-move');
    const dialog = await openFromMore(page, 'Reschedule the next fire…');
    await dialog.getByLabel('Fire next at').fill('2020-01-01T10:00');
    await dialog.getByRole('button', { name: 'Move it' }).click();
    await dialog.getByRole('alert').waitFor();
    await dialog.getByLabel('Fire next at').fill(`${day(3)}T10:15`);
    await dialog.getByRole('button', { name: 'Move it' }).click();
    await page.getByText(`${day(3)} 10:15 UTC`).waitFor();
    await openFromMore(page, 'Skip the next fire…');
    await page.getByRole('button', { name: 'Skip it' }).click();
    await page.getByText(`${day(3)} 10:15 UTC`).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Slots' }).click();
    await page.getByText('somebody moved or skipped it').first().waitFor();
  });

  test('b10_a_backfill_is_previewed_and_runs_what_was_agreed_to', async ({ page, api }) => {
    const { id } = await api.schedule('to-fill', 'true', { cron: '0 12 * * *' });
    await page.logIn();
    await show(page, 'to-fill');
    const dialog = await openFromMore(page, 'Backfill…');
    await dialog.getByLabel('From').fill(`${day(-6)}T00:00`);
    await dialog.getByLabel('Until (not included)').fill(`${day(-1)}T00:00`);
    await dialog.getByRole('button', { name: 'Preview' }).click();
    await dialog.getByText('5 of 5 slots would run').waitFor();
    await dialog.getByText(`${day(-6)} 12:00:00 UTC`).waitFor();
    assert.equal((await api.get(`/jobs?schedule_id=${id}`)).items.length, 0, 'a preview runs nothing');
    await dialog.getByRole('button', { name: 'Run 5 slots' }).click();
    await page.getByRole('dialog').getByText('5 of 5 jobs made').waitFor();
    await page.getByRole('dialog').getByText('done').waitFor();
    const jobs = await api.get(`/jobs?schedule_id=${id}`);
    assert.deepEqual(new Set(jobs.items.map((job) => job.triggered_by)), new Set(['backfill']));
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('cell', { name: 'backfill' }).nth(4).waitFor();
    await page.getByRole('img', { name: /How long the last \d runs took/ }).waitFor();
  });

  test('b10_two_who_edit_at_once_lose_nothing', async ({ page, api, watch }) => {
    watch.expect(/^412 PATCH /);
    await api.schedule('shared', 'true', { cron: '30 2 * * *' });
    await page.logIn();
    await page.at('schedules/shared/edit');
    await page.getByRole('radio', { name: 'Daily', checked: true }).waitFor();
    await page.getByLabel('Description').fill('mine');
    await api.patch('/schedules/shared', { timeout: '7m' });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('They changed: timeout.').waitFor();
    await page.getByRole('button', { name: 'Put mine on top of theirs' }).click();
    assert.equal(await page.getByLabel('Timeout').inputValue(), '7m');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('a run is ended after 7m').waitFor();
    const { description, timeout } = await api.get('/schedules/shared');
    assert.deepEqual({ description, timeout }, { description: 'mine', timeout: '7m' });
  });

  test('b10_the_calendar_of_slots_says_why_there_is_a_gap', async ({ page, api }) => {
    const { id } = await api.schedule('with-gaps', 'true', { cron: undefined, every: '1s' });
    await api.until(`/schedules/${id}/slots`, ({ items }) => items.length > 0);
    await api.post(`/schedules/${id}/pause`, { note: 'for a while' });
    const { items } = await api.get(`/schedules/${id}/slots`);
    const slot = new Date(Date.parse(items[0].slot_at) + 2_000).toISOString();
    await api.until(`/schedules/${id}/why?at=${slot}`, ({ verdict }) => verdict === 'paused');
    await api.post(`/schedules/${id}/resume`);
    await api.until(`/schedules/${id}/slots`, ({ items }) => items.some((slot) => slot.reason === 'paused'));
    // Nothing more happens to it, so that the rows stay where they are.
    await api.post(`/schedules/${id}/pause`);
    await page.logIn();
    await show(page, 'with-gaps', '?tab=slots');
    await page.getByRole('link', { name: /skipped: it was paused/ }).click();
    const row = page.locator('tr[data-row]').filter({ hasText: 'it was paused' });
    await row.getByRole('button', { name: 'Why?' }).click();
    await page.getByRole('status').filter({ hasText: 'paused' }).waitFor();
    await api.delete(`/schedules/${id}`);
  });
});

onEachStore('the list of schedules', (test) => {
  test('b10_first_rows_come_from_one_request_and_the_address_holds_the_filter', async ({ page, api }) => {
    for (const name of ['alpha', 'beta'])
      await api.schedule(name, 'true', { labels: { team: name }, queue: `q-${name}` });
    await page.logIn();
    await page.at('settings');
    const asked = await requestsDuring(page, async () => {
      await page.getByRole('link', { name: 'Schedules', exact: true }).click();
      await page.getByRole('link', { name: 'alpha', exact: true }).waitFor();
    });
    assert.equal(asked.filter((request) => request.startsWith('GET /schedules')).length, 1, asked.join('\n'));
    await page.getByLabel('Search schedules').fill('label:team=beta queue:q-beta');
    await page.getByRole('link', { name: 'alpha', exact: true }).waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('link', { name: 'beta', exact: true }).waitFor();
    assert.equal(await page.getByLabel('Search schedules').inputValue(), 'label:team=beta queue:q-beta');
    assert.equal(await page.getByRole('link', { name: 'alpha', exact: true }).count(), 0);
  });

  test('b10_many_are_paused_resumed_and_run_at_once', async ({ page, api }) => {
    const ids = [];
    for (const at of [1, 2, 3]) ids.push((await api.schedule(`many-${at}`, 'true')).id);
    await page.logIn();
    await page.at('schedules?q=many-');
    const choose = async (button, yes) => {
      await page.getByLabel('Select all on this page').check();
      await page.getByRole('region', { name: 'Selected schedules' }).getByRole('button', { name: button }).click();
      await page.getByRole('button', { name: yes }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    };
    await choose('Pause', 'Pause 3 schedules');
    for (const id of ids) assert.equal((await api.get(`/schedules/${id}`)).enabled, false);
    // Those that are resumed leave this list, and are counted all the same.
    await page.at('schedules?q=many-&show=paused');
    await page
      .getByRole('switch', { name: /is paused/ })
      .nth(2)
      .waitFor();
    await choose('Resume', 'Resume 3 schedules');
    await page.getByText('3 schedules resumed').waitFor();
    for (const id of ids) assert.equal((await api.get(`/schedules/${id}`)).enabled, true);
    await page.getByRole('link', { name: 'Show all schedules' }).click();
    await page.waitForFunction(() => document.querySelector('[data-search]').value === '');
    await page.goBack();
    await page.waitForFunction(() => document.querySelector('[data-search]').value === 'many-');
    await page.at('schedules?q=many-');
    await choose('Run now', 'Run 3 schedules');
    for (const id of ids) assert.equal((await api.get(`/jobs?schedule_id=${id}`)).items.length, 1);
    await page.getByRole('img', { name: 'last 1 runs, none failed' }).nth(2).waitFor();
  });

  test('b10_no_row_moves_while_somebody_selects', async ({ page, api }) => {
    await api.schedule('held', 'true');
    await page.logIn();
    await page.at('schedules?q=held');
    await page.getByLabel('Select held').check();
    const { id } = await api.post('/schedules/held/trigger');
    await api.ended(id);
    await page.getByRole('button', { name: /new – show/ }).waitFor();
    await page.getByText('never ran').waitFor();
    await page.getByRole('button', { name: /new – show/ }).click();
    await page.getByText('never ran').waitFor({ state: 'detached' });
    assert.ok(await page.getByLabel('Select held').isChecked());
  });

  test('b10_a_viewer_sees_everything_and_no_button_that_works', async ({ page, api }) => {
    const token = await api.newToken('operator', 'ann');
    await api.as(token).schedule('of-ann', 'true');
    await page.logIn((await api.post('/tokens', { name: 'ann looks', owner: 'ann', role: 'viewer' })).secret);
    await page.at('schedules');
    await page.getByRole('link', { name: 'of-ann', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'of-ann' }).waitFor();
    await page.getByText('Next fires').waitFor();
    for (const name of ['Run now', 'Edit', 'New schedule']) {
      assert.equal(await page.getByText(name, { exact: true }).count(), 0, name);
    }
    assert.equal(await page.getByRole('switch').count(), 0);
    assert.equal(await page.getByRole('link', { name: 'Changes' }).count(), 0);
    await page.at('new/schedule');
    await page.getByText('Only an operator can make schedules.').waitFor();
  });

  test('b10_hostile_names_are_shown_as_text', async ({ page, api }) => {
    const name = '<img src=x onerror=alert(1)> \u202egnp.exe';
    const script = '<script>alert(2)</script>';
    await api.schedule(name, 'true', { description: `${script}\u001b[31m`, labels: { [script]: script } });
    await page.logIn();
    await page.at('schedules?q=onerror');
    await page.getByRole('link', { name: '<img src=x onerror=alert(1)> ⟨U+202E⟩gnp.exe' }).click();
    await page.getByRole('heading', { level: 1, name: '<img src=x onerror=alert(1)> ⟨U+202E⟩gnp.exe' }).waitFor();
    await page.getByText(`${script}␛[31m`).waitFor();
    for (const tab of ['history', 'slots', 'definition', 'changes']) {
      await page.at(`schedules/${encodeURIComponent(name)}?tab=${tab}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
    }
    await page.at(`schedules/${encodeURIComponent(name)}/edit`);
    await page.getByLabel('Name', { exact: true }).waitFor();
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), name);
    assert.equal(await page.locator('main img, main script').count(), 0);
  });

  test('b10_every_page_of_schedules_can_be_used_by_everybody', async ({ page, api }) => {
    const { id } = await api.schedule('for-all', 'true', { labels: { team: 'shop' }, description: 'For everybody' });
    const job = await api.post(`/schedules/${id}/trigger`);
    await api.ended(job.id);
    await page.logIn();
    const tabs = ['', '?tab=history', `?tab=slots&why=${new Date().toISOString()}`, '?tab=definition', '?tab=changes'];
    const pages = [
      'schedules',
      'new/schedule',
      'schedules/for-all/edit',
      ...tabs.map((tab) => `schedules/for-all${tab}`),
    ];
    for (const path of pages) {
      await page.at(path);
      await page.locator('.frame main:not(:has(.skeleton)) h1').first().waitFor();
      await checkAccessibility(page);
    }
  });
});
