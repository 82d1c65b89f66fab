// Work: jobs are searched, watched, retried and cancelled, queues are put in order, flows are followed.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkAccessibility } from './axe.mjs';
import { PHONE, requestsDuring } from './browser.mjs';
import { onEachStore } from './stores.mjs';

/** A job that nobody takes: its queue is paused. */
async function waitingJobs(api, queue, count, more = {}) {
  const first = await api.shell('true', { queue, run_at: '2099-01-01T00:00:00Z' });
  await api.patch(`/queues/${queue}`, { paused: true });
  await api.post(`/jobs/${first.id}/cancel`);
  const jobs = Array.from({ length: count }, () => ({
    queue,
    target: { kind: 'command', argv: ['true'] },
    ...more,
  }));
  const made = await api.post('/jobs/batch', { jobs });
  return made.items;
}

const order = (page) => page.locator('[data-job]').evaluateAll((rows) => rows.map((row) => row.dataset.job));
const queued = async (api, queue) => (await api.get(`/queues/${queue}/jobs`)).items.map((job) => job.job_id);

onEachStore('work', (test) => {
  test('b10_a_search_is_suggested_word_by_word_and_kept_in_the_address', async ({ page, api }) => {
    await waitingJobs(api, 'letters', 3, { tags: ['spring'] });
    await page.logIn();
    const asked = await requestsDuring(page, async () => {
      await page.at('jobs');
      await page.getByRole('table').waitFor();
    });
    assert.deepEqual(
      asked.filter((request) => request.startsWith('GET /jobs')),
      ['GET /jobs?limit=50'],
      'the first rows come from one request',
    );
    await page.keyboard.press('/');
    await page.keyboard.type('sta');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('option', { name: 'state:queued' }).waitFor();
    await page.keyboard.type('qu');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL(/q=state%3Aqueued$/);
    await page.keyboard.type('queue:let');
    await page.getByRole('option', { name: 'queue:letters' }).click();
    await page.waitForURL(/q=state%3Aqueued\+queue%3Aletters$/);
    const rows = page.locator('tbody tr');
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 3);
    await page.reload();
    await rows.nth(2).waitFor();
    assert.equal(await rows.count(), 3, 'the address holds all of it');
    await page.getByLabel('Search jobs').fill('hello');
    await page.keyboard.press('Enter');
    await page.getByText('write type:hello, tag:hello or queue:hello').waitFor();
  });

  test('b10_a_log_is_watched_live_the_job_fails_and_is_retried', async ({ page, api }) => {
    const words =
      'echo begun; while [ ! -e go ]; do sleep 0.1; done; printf "\\033[31mred\\033[0m alert\\n" >&2; exit 3';
    const job = await api.shell(`cd "$(mktemp -d)"; echo "in $PWD"; ${words}`, { retry: { max_attempts: 1 } });
    await page.logIn();
    await page.at(`jobs/${job.id}`);
    const log = page.getByRole('log');
    await log.getByText('begun', { exact: true }).waitFor();
    const where = (await log.getByText(/^in \//).textContent()).slice(3);
    // The page shows what is written after it was opened, without being loaded anew.
    await api.ended((await api.shell(`touch ${where}/go`)).id);
    await log.getByText('red', { exact: true }).waitFor();
    await page.getByRole('heading', { name: 'It failed: the work itself failed' }).waitFor();
    await page.getByLabel('Search the log').fill('ALERT');
    await page.getByText('1 of 1').waitFor();
    await page.getByLabel('Matches only').check();
    await page.waitForFunction(() => document.querySelectorAll('[data-line]').length === 1);
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ]);
    assert.match(await readFile(await file.path(), 'utf8'), /^in .*\nbegun\nred alert\n$/);
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await page.getByText('2 (this one)').waitFor();
    assert.notEqual(page.url().split('/').pop(), job.id);
    await page.getByRole('link', { name: 'Attempt 1' }).waitFor();
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('button', { name: 'Cancel the job' }).click();
    await page.getByRole('heading', { name: 'It was cancelled' }).waitFor();
  });

  test('b10_a_job_is_run_again_with_another_input_to_the_last_digit', async ({ page, api }) => {
    const job = await api.shell('true', { input: { id: 1 } });
    await api.ended(job.id);
    await page.logIn();
    await page.at(`jobs/${job.id}`);
    await page.getByRole('button', { name: 'Run again…' }).click();
    const field = page.getByLabel('Input (JSON)');
    await field.fill('{"id": 90071992547409931');
    await page.getByText('This is no JSON').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Run it' }).isDisabled());
    await field.fill('{"id": 90071992547409931}');
    await page.getByRole('button', { name: 'Run it' }).click();
    await page.getByText('90071992547409931').first().waitFor();
    const made = page.url().split('/').pop();
    const answer = await fetch(`${api.url}/api/v1/jobs/${made}`, {
      headers: { authorization: `Bearer ${api.token}` },
    });
    assert.match(await answer.text(), /"id":90071992547409931\b/);
  });

  test('b10_a_queue_is_put_in_order_by_pointer_and_by_keys', async ({ page, api }) => {
    await waitingJobs(api, 'ordered', 5);
    await page.logIn();
    await page.at('queues/ordered');
    await page.locator('[data-job]').nth(4).waitFor();
    const [a, b, c, d, e] = await order(page);
    const handle = (job) => page.locator(`[data-job="${job}"] [data-act=handle]`);
    await handle(c).focus();
    await page.keyboard.press('Alt+ArrowUp');
    await page.keyboard.press('Alt+ArrowUp');
    await page.getByText(/moved to place 1 of 5/).waitFor({ state: 'attached' });
    assert.deepEqual(await queued(api, 'ordered'), [c, a, b, d, e]);
    assert.equal(await handle(c).evaluate((button) => button === document.activeElement), true, 'the focus goes along');
    const from = await handle(e).boundingBox();
    const to = await handle(a).boundingBox();
    await page.mouse.move(from.x + 8, from.y + 8);
    await page.mouse.down();
    await page.mouse.move(to.x + 8, to.y + 4, { steps: 6 });
    await page.mouse.up();
    await page.getByText(/moved to place 2 of 5/).waitFor({ state: 'attached' });
    assert.deepEqual(await queued(api, 'ordered'), [c, e, a, b, d]);
    assert.deepEqual(await order(page), [c, e, a, b, d]);
    await page.locator(`[data-job="${c}"]`).getByRole('button', { name: 'to the back of its priority' }).click();
    await page.getByText(/moved to the back/).waitFor({ state: 'attached' });
    assert.deepEqual(await queued(api, 'ordered'), [e, a, b, d, c]);
  });

  test('b10_a_move_that_is_refused_is_put_back', async ({ page, api, watch }) => {
    await waitingJobs(api, 'refused', 3);
    await page.logIn();
    await page.at('queues/refused');
    await page.locator('[data-job]').nth(2).waitFor();
    const before = await order(page);
    watch.expect(/^503 POST .*\/move$/);
    const problem = { code: 'store_unavailable', detail: 'the store is away', remedy: 'wait a moment' };
    await page.route('**/move', (route) => route.fulfill({ status: 503, json: problem }));
    await page.locator('[data-act=down]').first().click();
    await page.getByText('the store is away').first().waitFor();
    assert.deepEqual(await order(page), before);
  });

  test('b10_jobs_are_cancelled_by_what_they_have_in_common', async ({ page, api }) => {
    await waitingJobs(api, 'many', 70, { tags: ['gone'] });
    const [kept] = await waitingJobs(api, 'many', 1, { tags: ['kept'] });
    await page.logIn();
    await page.at(`jobs?q=${encodeURIComponent('tag:gone state:queued')}`);
    await page.getByRole('checkbox', { name: 'Select every job on this page' }).click();
    await page.getByText('50 jobs selected').waitFor();
    await page.getByRole('button', { name: 'Select every job that matches' }).click();
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('button', { name: 'Cancel 70 jobs' }).click();
    await page.getByText('Done: 70 jobs changed, 0 left alone').waitFor();
    await page.getByText('No job matches this search.').waitFor();
    const { items } = await api.get('/queues/many/jobs');
    assert.deepEqual(
      items.map((job) => job.job_id),
      [kept.id],
    );
  });

  test('b10_a_flow_is_followed_step_by_step', async ({ page, watch, api }) => {
    // Between its claim and its first step there is nothing to be seen of it.
    watch.expect(/^404 GET .*\/steps$/);
    const wait = 'while [ ! -e "$0" ]; do sleep 0.1; done';
    const gate = join(tmpdir(), `punctual-gate-${process.pid}-${Date.now()}`);
    const shell = (words) => ({ kind: 'command', argv: ['sh', '-c', words, gate] });
    await api.put('/flows/followed', {
      steps: [
        { name: 'find', target: shell('echo "[1,2,3]"') },
        { name: 'each', after: ['find'], map: { over: 'steps.find.output' }, target: shell('true') },
        { name: 'hold', after: ['each'], target: shell(wait) },
        { name: 'never', after: ['hold'], when: 'false', target: shell('true') },
        { name: 'last', after: ['hold', 'never'], target: shell('rm -f "$0"') },
      ],
    });
    await page.logIn();
    await page.at('flows');
    await page.getByRole('link', { name: 'followed' }).click();
    await page.getByText('when false').waitFor();
    await page.getByRole('button', { name: 'Run it…' }).click();
    await page.getByRole('button', { name: 'Run it', exact: true }).click();
    const step = (name) => page.getByRole('group', { name: /^Steps of the flow/ }).locator(`li[data-step="${name}"]`);
    await step('hold').getByText('running').waitFor();
    await step('each').getByText('3 of 3').waitFor();
    await step('last').getByText('waiting').waitFor();
    await api.ended((await api.shell(`touch ${gate}`)).id);
    await step('last').getByText('completed').waitFor();
    await step('never').getByText('skipped').waitFor();
    await step('each').getByRole('button').click();
    await page.getByRole('dialog').getByText('3 items').waitFor();
    await page.keyboard.press('Escape');
    await step('hold').getByRole('link').click();
    await page.getByRole('link', { name: 'this flow run' }).waitFor();
  });

  test('b10_rows_stay_while_somebody_types_or_selects', async ({ page, api }) => {
    await waitingJobs(api, 'held', 5);
    await page.logIn();
    await page.at(`jobs?q=${encodeURIComponent('queue:held state:queued')}`);
    await page.locator('tbody tr').nth(4).waitFor();
    await page
      .getByRole('checkbox', { name: /^Select the job/ })
      .first()
      .check();
    // Rows that come or go are noted; the seconds that pass in them are not.
    await page.evaluate(() => {
      window.redrawn = 0;
      const count = (changes) => (window.redrawn += changes.length);
      new MutationObserver(count).observe(document.querySelector('tbody'), { childList: true, subtree: true });
    });
    await page.getByLabel('Search jobs').focus();
    // More than 10,000 events in a minute, while somebody types.
    for (let batch = 0; batch < 10; batch += 1) {
      await waitingJobs(api, 'held', 200);
      await page.keyboard.type('x');
    }
    await page.getByRole('button', { name: /new – show/ }).waitFor();
    assert.equal(await page.evaluate(() => window.redrawn), 0, 'nothing moved');
    assert.equal(await page.locator('tbody tr').count(), 5);
    assert.match(await page.getByLabel('Search jobs').inputValue(), /x{10}$/);
    await page.getByRole('button', { name: /new – show/ }).click();
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 50);
  });

  test('c12_hostile_names_inputs_and_lines_are_shown_as_text', async ({ page, api }) => {
    const bad = '<img src=x onerror="document.title=1">';
    const most = '18446744073709551615';
    const asked = JSON.stringify({
      target: { kind: 'command', argv: ['printf', `%s\\n`, `${bad}\u202egnp.exe \u001b]0;title\u0007 \u001b[31mred`] },
      tags: [bad],
      input: { [bad]: 'THE NUMBER', text: most },
    });
    // As a number it can only be written by hand: a number of JavaScript would not hold it.
    const job = await api.post('/jobs', asked.replace('"THE NUMBER"', most));
    await api.ended(job.id);
    await page.logIn();
    await page.at(`jobs/${job.id}`);
    await page.getByRole('log').getByText('onerror').first().waitFor();
    const line = await page.locator('[data-line="1"] .text').textContent();
    assert.ok(line.startsWith(bad) && line.includes('⟨U+202E⟩gnp.exe') && line.includes('␛]0;title␇'), line);
    const input = await page.locator('pre[aria-label="Input"]').textContent();
    assert.ok(input.includes(`: ${most}`) && input.includes(`"text": "${most}"`), input);
    const title = await page.title();
    assert.ok(title.startsWith('command printf') && title.includes(bad) && title.endsWith(' · Punctual'), title);
    assert.equal(await page.locator('main img').count(), 0);
    await page.at('jobs');
    await page.locator('tbody tr').first().waitFor();
    assert.equal(await page.locator('main img').count(), 0);
    assert.equal(await page.title(), 'Jobs · Punctual');
  });

  test('b10_a_log_of_ten_thousand_lines_stays_light', async ({ page, api }) => {
    const job = await api.shell('seq 1 10000; head -c 1000000 /dev/zero | tr "\\0" x');
    await api.ended(job.id);
    await page.logIn();
    await page.at(`jobs/${job.id}`);
    await page.getByText(/^\s*10,0\d\d\s+lines/).waitFor();
    assert.ok((await page.locator('[data-line]').count()) < 1_000, 'only what is near is drawn');
    await page.getByLabel('Search the log').fill('7777');
    await page.getByText('1 of 1').waitFor();
    await page.keyboard.press('Enter');
    await page.locator('[data-line="7777"]').waitFor();
    await page.getByLabel('Search the log').fill('xxxx');
    await page.keyboard.press('Enter');
    await page
      .getByRole('button', { name: /^show all/ })
      .first()
      .click();
    const whole = await page.locator('[data-line]', { hasText: 'xxxx' }).first().textContent();
    assert.ok(whole.length > 16_000, 'and all of it on demand');
  });

  test('c12_a_viewer_finds_nothing_to_change', async ({ page, api }) => {
    const [waiting] = await waitingJobs(api, 'seen', 1);
    const failed = await api.shell('echo oops; exit 1', { retry: { max_attempts: 1 } });
    const step = { name: 'only', target: { kind: 'command', argv: ['true'] } };
    await api.put('/flows/seen', { steps: [step] });
    const flow = await api.post('/jobs', { target: { kind: 'flow', name: 'seen' } });
    await api.put('/limits/queue:seen', { concurrency: 3 });
    await api.ended(failed.id);
    await api.ended(flow.id);
    const token = await api.newToken('viewer', 'admin');
    await page.logIn(token);
    const acts = /cancel|retry|run|pause|resume|reserve|release|move|edit|limit…|priority|forget|change|remove/i;
    /** Each page, and what is there once it has been read: what could be done to it would be there, too. */
    const pages = {
      jobs: page.locator('tbody tr').first(),
      [`jobs/${waiting.id}`]: page.locator('pre[aria-label="Input"]'),
      [`jobs/${failed.id}`]: page.getByRole('log').getByText('oops').first(),
      [`jobs/${flow.id}`]: page.locator('li[data-step="only"]'),
      queues: page.getByRole('cell', { name: 'seen', exact: true }).first(),
      'queues/seen': page.locator(`[data-job="${waiting.id}"]`),
      flows: page.getByRole('cell', { name: 'seen', exact: true }).first(),
      'flows/seen': page.locator('tbody tr').first(),
    };
    for (const [path, data] of Object.entries(pages)) {
      await page.at(path);
      await data.waitFor();
      await page.waitForFunction(() => document.querySelector('main .skeleton') === null);
      const names = await page.locator('main').getByRole('button').allTextContents();
      assert.deepEqual(
        names.filter((name) => acts.test(name)),
        [],
        path,
      );
      assert.equal(await page.getByRole('main').getByRole('switch').count(), 0);
      // Those of a log change how it is shown, and nothing else.
      assert.equal(await page.locator('main input[type=checkbox]:not(.tools input)').count(), 0);
    }
  });

  test('b10_the_pages_of_work_are_usable_for_all_and_fit_a_phone', async ({ api, newPage }) => {
    await waitingJobs(api, 'fit', 2, { tags: ['a-rather-long-tag-that-would-not-fit'], serial_key: 'k'.repeat(60) });
    const shell = { kind: 'command', argv: ['sh', '-c', 'echo hello'] };
    await api.put('/flows/fit', { steps: ['a', 'b', 'c'].map((name) => ({ name, target: shell })) });
    const flow = await api.post('/jobs', { target: { kind: 'flow', name: 'fit' } });
    const job = await api.shell('echo oops >&2; exit 1', { retry: { max_attempts: 1 } });
    await api.ended(flow.id);
    await api.ended(job.id);
    await api.put('/limits/queue:fit', { concurrency: 3 });
    const pages = ['jobs', `jobs/${job.id}`, `jobs/${flow.id}`, 'flows', 'flows/fit', 'queues', 'queues/fit'];
    for (const options of [{}, { viewport: PHONE }]) {
      const { page } = await newPage(options);
      await page.logIn();
      for (const path of pages) {
        await page.at(path);
        await page.locator('main .card').first().waitFor();
        await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${path} is ${over} px too wide`);
        await checkAccessibility(page);
      }
    }
  });
});
