// The cron builder writes what it reads, and leaves alone what it has no fields for.
import assert from 'node:assert/strict';
import test from 'node:test';
import { lacking, newPlan, readCron, writeCron } from '../text/cron';

const SIMPLE: [cron: string, kind: string][] = [
  ['* * * * *', 'minutes'],
  ['*/15 * * * *', 'minutes'],
  ['5 * * * *', 'hours'],
  ['30 */6 * * *', 'hours'],
  ['30 2 * * *', 'daily'],
  ['0 9 * * 1-5', 'weekly'],
  ['0 9 * * 0,6', 'weekly'],
  ['0 9 * * 2', 'weekly'],
  ['0 0 1 * *', 'monthly'],
  ['15 23 L * *', 'monthly'],
  ['0 8 * * 1#1', 'monthly'],
  ['0 8 * * 5L', 'monthly'],
];

test('a simple expression is read into fields and written as it was', () => {
  for (const [cron, kind] of SIMPLE) {
    const plan = readCron(cron);
    assert.equal(plan.kind, kind, cron);
    assert.equal(writeCron(plan), cron);
  }
});

test('names, seven for Sunday and words are read as what they mean', () => {
  assert.deepEqual(readCron('0 9 * * MON,fri').days, [1, 5]);
  assert.deepEqual(readCron('0 9 * * 6-7').days, [0, 6]);
  assert.equal(writeCron(readCron('@daily')), '0 0 * * *');
  assert.equal(readCron('0 8 * * 7L').weekday, 0);
});

test('everything else stays an expression, letter by letter', () => {
  const others = [
    '*/7 * * * *',
    '0 9 13 * 5',
    'H H * * *',
    '0 0 0 * * *',
    '0 9 * 1 *',
    '5,35 * * * *',
    '0 0 LW * *',
    '0 25 * * *',
    '@every 90s',
    '0 8 * * 5-1',
    'x',
  ];
  for (const cron of others) {
    const plan = readCron(cron);
    assert.equal(plan.kind, 'cron', cron);
    assert.equal(writeCron(plan), cron);
  }
});

test('a time of day that was cleared is not midnight', () => {
  for (const kind of ['daily', 'weekly', 'monthly'] as const) {
    const plan = { ...newPlan(), kind, time: '' };
    assert.equal(lacking(plan), 'time');
    assert.equal(writeCron(plan), '');
  }
  assert.equal(lacking({ ...newPlan(), kind: 'weekly', days: [] }), 'days');
  assert.equal(lacking({ ...newPlan(), kind: 'hours', time: '' }), null);
});

test('what is no expression writes none', () => {
  assert.equal(writeCron({ ...newPlan(), kind: 'every' }), '');
});
