// Channels, rules and grants: what a form holds is what the API gets, and what the command says.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Channel, Grant, Rule } from '../api/types';
import { NO_CHANNEL, channelCommand, channelLine, fieldsOfChannel, targetOf } from '../text/channels';
import { csv } from '../text/csv';
import { grantBody, grantCommand, grantState } from '../text/grants';
import { NO_RULE, fieldsOfRule, newRuleBody, ruleBody, ruleCommand, stepsInWords } from '../text/rules';

const channel = (target: Channel['target']) =>
  ({ name: 'ops', description: '', kind: target.kind, target, enabled: true, version: 1 }) as Channel;

test('a channel that is read and not changed is sent back as it was', () => {
  const targets: Channel['target'][] = [
    { kind: 'slack', url: { secret: 'env:SLACK_URL' } },
    { kind: 'ping', url: 'https://hc-ping.com/x' },
    {
      ...{ kind: 'webhook', url: 'https://x', secrets: [{ secret: 'env:NEW' }, { secret: 'file:/old' }] },
      headers: { 'x-team': 'a=b', authorization: { secret: 'env:AUTH' } },
    },
    {
      ...{ kind: 'email', host: 'smtp.x', port: 465, tls: 'implicit', from: 'P <p@x>', to: ['a@x', 'b@x'] },
      ...{ username: 'me', password: { secret: 'env:PW' } },
    },
  ];
  for (const target of targets) assert.deepEqual(targetOf(fieldsOfChannel(channel(target))), target);
});

test('a reference is sent as a reference, and never as a text', () => {
  assert.deepEqual(targetOf({ ...NO_CHANNEL, url: ' env:SLACK_URL ' }), {
    kind: 'slack',
    url: { secret: 'env:SLACK_URL' },
  });
});

test('the command of a channel', () => {
  const mail = { ...NO_CHANNEL, kind: 'email' as const, name: 'mail', to: 'a@x\nb@x', host: 'smtp.x', from: 'P <p@x>' };
  assert.equal(
    channelCommand({ ...mail, port: '25', tls: 'none' }, true),
    "punctual channel add mail --email a@x --email b@x --smtp smtp.x:25 --from 'P <p@x>' --tls none",
  );
  assert.equal(
    channelCommand({ ...NO_CHANNEL, kind: 'webhook', name: 'p', url: 'https://x', secrets: 'env:A\nenv:B' }, false),
    'punctual channel edit p --webhook https://x --secret env:A --secret env:B',
  );
  assert.equal(channelLine({ kind: 'email', to: ['a@x'], host: 'h', from: 'f' }), 'a@x by h');
});

const RULE = {
  ...{ name: 'nightly', description: 'd', enabled: true, on: 'failures_in_a_row', failures: 3 },
  ...{ scope: { schedule: 'backup' }, wait: '10s', group_by: 'cause', repeat_every: '4h', tell_recovery: false },
  steps: [{ channels: ['ops'] }, { channels: ['a', 'b'], after: '15m', failures: null }],
  quiet: { from: '22:00', until: '07:00', timezone: 'Europe/Berlin', days: ['saturday'] },
} as Rule;

test('a rule that is read and not changed is sent back as it was', () => {
  const { enabled: _, ...said } = RULE;
  assert.deepEqual(newRuleBody(fieldsOfRule(RULE)), said);
});

test('what is taken away of a rule is sent as null', () => {
  const body = ruleBody({
    ...fieldsOfRule(RULE),
    on: 'failure',
    scope: 'everywhere',
    isQuiet: false,
    repeatEvery: ' ',
  });
  for (const field of ['failures', 'scope', 'quiet', 'repeat_every']) assert.equal(body[field], null, field);
  assert.deepEqual(newRuleBody({ ...NO_RULE, name: 'x', steps: [{ channels: ['ops'], after: '', failures: '' }] }), {
    ...{ name: 'x', description: '', on: 'failure', steps: [{ channels: ['ops'] }], group_by: 'cause' },
  });
});

test('the command of a rule, and its steps in words', () => {
  assert.equal(
    ruleCommand(fieldsOfRule(RULE), true),
    'punctual rule add nightly --on failures_in_a_row --failures 3 --schedule backup --channel ops --then a,b:15m ' +
      '--wait 10s --repeat-every 4h --quiet 22:00-07:00 --tz Europe/Berlin --quiet-day saturday ' +
      '--tell-recovery false --description d',
  );
  assert.equal(stepsInWords(RULE), 'ops, then a and b after 15m');
});

const GRANT = { account: 'acme', graphs: '', expires_at: null, max_runs: '', jobs: '', per: '1m', burst: '' };

test('a grant covers every graph unless some are named', () => {
  assert.deepEqual(grantBody(GRANT).scopes, ['graph:execute:*']);
  assert.deepEqual(grantBody({ ...GRANT, graphs: 'flow:etl\n\n x ' }).scopes, [
    'graph:execute:flow:etl',
    'graph:execute:x',
  ]);
  assert.equal(
    grantCommand({ ...GRANT, graphs: 'flow:etl', max_runs: '9', jobs: '5', burst: '2' }),
    'punctual grant add --account acme --graph flow:etl --max-runs 9 --rate 5/1m --burst 2',
  );
});

test('a grant is valid until it is revoked, expired or used up', () => {
  const now = Date.parse('2026-11-16T10:00:00Z');
  const grant = (more: object) => ({ runs: 3, ...more }) as Grant;
  assert.equal(grantState(grant({}), now), 'valid');
  assert.equal(grantState(grant({ expires_at: '2026-11-16T10:00:00Z' }), now), 'expired');
  assert.equal(grantState(grant({ max_runs: 3 }), now), 'used up');
  assert.equal(grantState(grant({ max_runs: 3, revoked_at: '2026-01-01T00:00:00Z' }), now), 'revoked');
});

test('a spreadsheet gets text, and no formula', () => {
  assert.equal(csv([['a', 'b,c', 'd"e', '=1+1', 'x\ny']]), 'a,"b,c","d""e",\'=1+1,"x\ny"\r\n');
});
