// The overview: the verdict, the figures behind it, what fails and what comes, live, from a handful of requests.
import assert from 'node:assert/strict';
import { checkAccessibility } from './axe.mjs';
import { PHONE, requestsDuring } from './browser.mjs';
import { onEachStore } from './stores.mjs';

const HOSTILE = '<img src=x onerror=alert(1)> \u202e"';

onEachStore('the overview', (test) => {
  test('b10_the_verdict_says_that_all_is_well_and_then_what_fails', async ({ page, api }) => {
    await api.schedule('fine', 'true');
    await page.logIn();
    const verdict = page.getByRole('status').filter({ hasText: /All well|Look at this/ });
    await verdict.getByText('All well:').waitFor();
    await verdict.getByText(/1 schedule, the next is due in/).waitFor();

    await api.schedule('broken', 'echo to the log >&2; exit 3', { retry: { max_attempts: 1 } });
    const job = await api.post('/schedules/broken/trigger');
    await api.ended(job.id);
    // Nobody loads the page anew: the event of the run's end does.
    await verdict.getByText('1 schedule failing').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'broken' }).filter({ hasText: 'failed 1×' });
    await row.getByText('exit code 3').first().waitFor();
    await row.getByRole('link', { name: 'open' }).click();
    await page.waitForURL((url) => url.pathname.endsWith(`/jobs/${job.id}`));
  });

  test('b10_failures_that_share_an_error_are_told_as_one_cause', async ({ page, api }) => {
    for (const name of ['same-1', 'same-2']) {
      await api.schedule(name, 'exit 7', { retry: { max_attempts: 1 } });
      await api.ended((await api.post(`/schedules/${name}/trigger`)).id);
    }
    await page.logIn();
    await page.getByRole('link', { name: /\d schedules failing, .* the same error/ }).click();
    await page.waitForURL(/schedules\?show=failing$/);
  });

  test('b10_counters_lead_to_the_jobs_that_they_count', async ({ page, api }) => {
    await api.ended((await api.shell('true')).id);
    await page.logIn();
    await page.getByRole('link', { name: /^\d+ completed in the last hour$/ }).click();
    await page.waitForURL((url) => url.searchParams.get('q') === 'state:completed since:1h');
  });

  test('b10_the_chart_has_every_number_as_a_table_and_its_window_in_the_address', async ({ page, api }) => {
    await api.ended((await api.shell('true')).id);
    await page.logIn();
    await page.getByRole('img', { name: /runs ended/ }).waitFor();
    await page.getByText('As a table').click();
    const region = page.getByRole('region', { name: 'The chart as a table' });
    await region.getByRole('row').nth(1).waitFor();
    await page.getByRole('button', { name: '24 hours' }).click();
    await page.waitForURL(/\?window=24h$/);
    await page.reload();
    assert.equal(await page.getByRole('button', { name: '24 hours' }).getAttribute('aria-pressed'), 'true');
    await page.getByRole('slider', { name: 'Look at a moment of the chart' }).focus();
    await page.keyboard.press('ArrowLeft');
    await page
      .getByText(/: nothing ended|: \d+ (completed|failed)/)
      .first()
      .waitFor();
  });

  test('b10_the_overview_takes_a_handful_of_requests', async ({ page, api }) => {
    for (let number = 0; number < 20; number += 1) await api.schedule(`many-${number}`, 'true');
    await page.logIn();
    const made = await requestsDuring(page, async () => {
      await page.at('');
      await page
        .getByRole('status')
        .filter({ hasText: /All well|Look at this/ })
        .waitFor();
    });
    const first = new Set(made.filter((request) => !request.endsWith('/session')));
    assert.ok(first.size <= 8, `${first.size} different requests: ${[...first].join(', ')}`);
  });

  test('b10_what_waits_in_a_paused_queue_is_told', async ({ page, api }) => {
    await api.shell('true', { queue: 'held' }).then(({ id }) => api.ended(id));
    await api.patch('/queues/held', { paused: true });
    await api.shell('true', { queue: 'held' });
    await page.logIn();
    await page.getByRole('link', { name: 'queue held paused with 1 waiting' }).waitFor();
    await api.patch('/queues/held', { paused: false });
    await page.getByRole('link', { name: 'queue held paused with 1 waiting' }).waitFor({ state: 'detached' });
  });

  test('b10_hostile_names_are_text', async ({ page, api }) => {
    await api.schedule(`x ${HOSTILE}`, 'true', { every: '1h', cron: null });
    await page.logIn();
    await page
      .getByRole('link', { name: /<img src=x onerror=alert\(1\)>/ })
      .first()
      .waitFor();
    assert.equal(await page.locator('main img').count(), 0);
  });

  test('b10_the_overview_fits_a_phone_and_everybody_can_use_it', async ({ page, newPage }) => {
    await page.logIn();
    await page.getByRole('img', { name: /runs ended/ }).waitFor();
    await checkAccessibility(page);
    const phone = await newPage({ viewport: PHONE });
    await phone.page.logIn();
    await phone.page.getByRole('heading', { name: 'Running now' }).waitFor();
    const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.equal(wide, 0, 'nothing goes beyond the edge');
  });
});
