// Logs, orders and sentences of the pages about work.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Job, Limit } from '../api/types';
import { SHOWN_OF_LINE, blocks, droppable, matches, shownPieces } from '../text/log';
import { moveTo, moved, placeUnder } from '../text/queueOrder';
import { ageTone, bytes, countText, limitInWords, readRate, subjectInWords, timeline } from '../text/jobWords';

test('a log is searched without its colours and whatever the case', () => {
  const lines = [{ text: 'one' }, { text: '\u001b[31mER\u001b[0mROR' }, { text: 'an error' }];
  assert.deepEqual(matches(lines, 'Error'), [1, 2]);
  assert.deepEqual(matches(lines, ''), []);
});

test('what is looked for is marked, and nothing is lost', () => {
  const found = shownPieces('an error and an ERROR', 'error', false);
  assert.deepEqual(
    found.map(({ text, isMatch }) => [text, isMatch]),
    [
      ['an ', false],
      ['error', true],
      [' and an ', false],
      ['ERROR', true],
    ],
  );
});

test('what is looked for is marked where its colour changes, too', () => {
  const found = shownPieces('\u001b[32mline\u001b[0m 3 done', 'line 3', false);
  assert.deepEqual(
    found.map(({ text, style, isMatch }) => [text, style, isMatch]),
    [
      ['line', 'fg2', true],
      [' 3', '', true],
      [' done', '', false],
    ],
  );
});

test('a long line is cut until the whole is asked for', () => {
  const line = 'x'.repeat(1_000_000);
  const shown = (isWhole: boolean) => shownPieces(line, '', isWhole).reduce((sum, { text }) => sum + text.length, 0);
  assert.equal(shown(false), SHOWN_OF_LINE);
  assert.equal(shown(true), 1_000_000);
});

test('lines are dropped by whole blocks, and never too many', () => {
  assert.equal(droppable(999, 1_000), 0);
  assert.equal(droppable(1_099, 1_000), 0);
  assert.equal(droppable(1_100, 1_000), 100);
  assert.equal(droppable(1_350, 1_000), 300);
});

test('blocks hold all lines in order', () => {
  assert.deepEqual(blocks([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]]);
});

const QUEUE = ['a', 'b', 'c', 'd'].map((job_id) => ({ job_id, priority: 0 }));

test('a move up asks for before, a move down for after', () => {
  assert.deepEqual(moveTo(QUEUE, 2, 0), { before: 'a' });
  assert.deepEqual(moveTo(QUEUE, 0, 2), { after: 'c' });
  assert.equal(moveTo(QUEUE, 1, 1), null);
  assert.equal(moveTo(QUEUE, 3, 4), null);
});

test('the rows are shown as they will be', () => {
  assert.deepEqual(moved(['a', 'b', 'c', 'd'], 2, 0), ['c', 'a', 'b', 'd']);
  assert.deepEqual(moved(['a', 'b', 'c', 'd'], 0, 2), ['b', 'c', 'a', 'd']);
});

test('a dragged row takes the place whose middle it has passed', () => {
  const middles = [10, 30, 50, 70];
  assert.equal(placeUnder(middles, 1, 31), 1);
  assert.equal(placeUnder(middles, 1, 5), 0);
  assert.equal(placeUnder(middles, 1, 51), 2);
  assert.equal(placeUnder(middles, 1, 500), 3);
});

test('limits are said in words', () => {
  const limit = { subject: 'queue:mail', concurrency: 0, rate: { jobs: 10, per: '1m', burst: 3 } } as unknown as Limit;
  assert.equal(limitInWords(limit), '0 at once; 10 starts in 1m, 3 after a quiet time');
  assert.equal(subjectInWords('type:task:mail'), 'jobs of type task:mail');
  assert.deepEqual(readRate(' 10 / 1m '), { jobs: 10, per: '1m' });
  assert.equal(readRate('ten a minute'), null);
});

test('the life of a job has lengths between its points', () => {
  const job = {
    created_at: '2026-11-16T10:00:00Z',
    run_at: '2026-11-16T10:00:05Z',
    state: 'completed',
    run: { started_at: '2026-11-16T10:00:06Z', finished_at: '2026-11-16T10:00:16Z', outcome: 'completed' },
  } as unknown as Job;
  assert.deepEqual(
    timeline(job, 0).map(({ name, length }) => [name, length]),
    [
      ['Created', 5_000],
      ['Due', 1_000],
      ['Started', 10_000],
      ['Completed', null],
    ],
  );
});

test('what is ahead has no length yet', () => {
  const job = {
    created_at: '2026-11-16T10:00:00Z',
    run_at: '2026-11-16T11:00:00Z',
    state: 'scheduled',
  } as unknown as Job;
  const points = timeline(job, Date.parse('2026-11-16T10:30:00Z'));
  assert.deepEqual(
    points.map(({ name, length, isAhead }) => [name, length, isAhead]),
    [
      ['Created', 3_600_000, false],
      ['Due', null, true],
    ],
  );
});

test('counts, ages and sizes', () => {
  assert.equal(countText({ count: 10_000, more: true }), '10,000+');
  assert.deepEqual([60_000, 600_000, 7_200_000].map(ageTone), ['', 'warn', 'bad']);
  assert.equal(bytes(999), '999 bytes');
  assert.equal(bytes(1_500_000), '1.5 MB');
});
