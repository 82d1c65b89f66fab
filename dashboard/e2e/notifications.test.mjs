// Notifications: a channel is made and tried, a rule tells of a failure, somebody acknowledges.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { checkAccessibility } from './axe.mjs';
import { onEachStore } from './stores.mjs';

/** Somebody who is told: answers with `status`, and keeps what came. */
async function receiver(status = 200) {
  const told = [];
  const server = createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      told.push(Buffer.concat(parts).toString());
      response.writeHead(status).end('heard');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A test that fails does not close it, and must end nevertheless.
  server.unref();
  const url = `http://127.0.0.1:${server.address().port}/hook`;
  return { told, url, close: () => new Promise((resolve) => server.close(resolve)) };
}

async function makeChannel(page, name, url) {
  await page.at('notifications?tab=channels');
  await page.getByRole('button', { name: 'New channel' }).click();
  const dialog = page.getByRole('dialog', { name: 'New channel' });
  await dialog.getByLabel('Name').fill(name);
  await dialog.getByLabel('Address').fill(url);
  await dialog.getByRole('button', { name: 'Save the channel' }).click();
  await page.getByRole('button', { name: `Test ${name}` }).waitFor();
}

onEachStore(
  'notifications',
  (test) => {
    test('n04_a_channel_is_made_and_its_test_is_followed_until_it_arrives', async ({ page }) => {
      const ears = await receiver();
      await page.logIn();
      await makeChannel(page, 'ops', ears.url);
      await page.getByRole('button', { name: 'Test ops' }).click();
      await page.getByText('The message has arrived.').waitFor();
      assert.match(ears.told[0], /This is a test/);
      await checkAccessibility(page);
      await page.keyboard.press('Escape');
      await checkAccessibility(page);
      await ears.close();
    });

    test('n04_a_message_that_does_not_arrive_says_why', async ({ page }) => {
      const deaf = await receiver(500);
      await page.logIn();
      await makeChannel(page, 'deaf', deaf.url);
      await page.getByRole('button', { name: 'Test deaf' }).click();
      await page.getByText('It did not arrive yet, and is tried again.').waitFor();
      await page.getByText(/500/).first().waitFor();
      await page.getByRole('link', { name: 'All messages of deaf' }).click();
      await page.getByRole('button', { name: /^Drop/ }).click();
      await page.getByRole('button', { name: 'Drop the message' }).click();
      await page.locator('tbody').getByText('dropped').waitFor();
      await checkAccessibility(page);
      await deaf.close();
    });

    test('n01_a_rule_tells_of_a_failure_and_somebody_acknowledges_it', async ({ page, watch, api }) => {
      watch.expect(/^422 POST .*\/rules$/);
      const ears = await receiver();
      await page.logIn();
      await makeChannel(page, 'people', ears.url);
      await page.at('notifications?tab=rules');
      await page.getByRole('button', { name: 'New rule' }).click();
      const dialog = page.getByRole('dialog', { name: 'New rule' });
      await dialog.getByLabel('Name').fill('failures');
      await dialog.getByText('Grouping, reminders, the end').click();
      await dialog.getByLabel('Wait for more').fill('1s');
      // A rule that tells nobody is refused, and what was typed is still there.
      await dialog.getByRole('button', { name: 'Save the rule' }).click();
      await dialog.getByRole('alert').waitFor();
      assert.equal(await dialog.getByLabel('Name').inputValue(), 'failures');
      await dialog.getByRole('checkbox', { name: 'people' }).check();
      await dialog.getByRole('button', { name: 'Save the rule' }).click();
      await page.getByRole('button', { name: 'Edit failures' }).waitFor();
      await checkAccessibility(page);

      await page.getByRole('link', { name: 'Alerts' }).click();
      await page.getByText('No alert is open.').waitFor();
      const job = await api.shell('exit 3', { retry: { max_attempts: 1 } });
      await api.ended(job.id);
      await page.getByRole('link', { name: /exit code 3/ }).click();
      await page.getByRole('heading', { name: 'What was told, and to whom' }).waitFor();
      await page.locator('tbody').getByText('arrived').first().waitFor();
      assert.match(ears.told[0], /exit code 3/);
      await checkAccessibility(page);
      await page.getByRole('button', { name: 'Acknowledge', exact: true }).click();
      const acknowledge = page.getByRole('dialog', { name: 'Acknowledge this alert' });
      await acknowledge.getByLabel('Note').fill('the disk is full');
      await acknowledge.getByRole('button', { name: 'Acknowledge', exact: true }).click();
      await page.getByText(/by admin, .*: the disk is full/).waitFor();
      await page.getByRole('link', { name: 'the latest one' }).click();
      await page.waitForURL((url) => url.pathname.endsWith(`/jobs/${job.id}`));
      await ears.close();
    });

    test('n03_whoever_has_the_link_of_a_message_acknowledges_without_logging_in', async (given) => {
      const { page, server, api, newPage } = given;
      const ears = await receiver();
      await api.post('/channels', { name: 'pager', target: { kind: 'slack', url: ears.url } });
      const steps = [{ channels: ['pager'] }];
      await api.post('/rules', { name: 'paged', on: 'failure', scope: { queue: 'paged' }, wait: '1s', steps });
      await api.shell('exit 4', { queue: 'paged', retry: { max_attempts: 1 } });
      await api.until('/deliveries?channel=pager', ({ items }) => items[0]?.state === 'arrived');
      // The server was told of a name that leads nowhere here.
      const here = (kind) => server.url + ears.told[0].match(`https://punctual.example(/${kind}/[\\w-]+)`)[1];
      const { page: stranger } = await newPage();
      await stranger.goto(here('acknowledge'));
      await stranger.getByRole('button', { name: 'Acknowledge' }).click();
      await stranger.getByText(/^Acknowledged at/).waitFor();
      await page.logIn();
      await page.goto(here('alerts'));
      await page
        .getByText(/acknowledged/i)
        .first()
        .waitFor();
      await page.goto(here('jobs'));
      await page.getByText('exit code 4').first().waitFor();
      await ears.close();
    });

    test('c12_a_viewer_sees_channels_and_rules_and_no_working_button', async ({ page, api }) => {
      const token = await api.newToken('viewer');
      await page.logIn(token);
      for (const tab of ['channels', 'rules', 'deliveries', 'alerts']) {
        await page.at(`notifications?tab=${tab}`);
        await page.getByRole('heading', { name: 'Notifications' }).waitFor();
        await page
          .getByText(/\d\s+(channel|rule|message|alert)|No such message|No alert is open|Nobody/)
          .first()
          .waitFor();
        const acts = page.locator('main').getByRole('button', { name: /New|Edit|Delete|Test|Drop|Resend|Acknowledge/ });
        assert.equal(await acts.count(), 0, tab);
        assert.equal(await page.getByRole('switch').count(), 0, tab);
      }
    });
  },
  { args: ['--http-allow', '127.0.0.1', '--public-url', 'https://punctual.example'] },
);
