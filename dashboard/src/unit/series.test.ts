// The chart's numbers.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { SeriesBucket } from '../api/types';
import { labelled, named, roundUp, stack, stretches, tick, total } from '../text/series';

const bucket = (more: Partial<SeriesBucket>): SeriesBucket => ({
  ...{ at: '2026-11-16T10:00:00Z', completed: 0, failed: 0, skipped: 0, cancelled: 0 },
  ...more,
});

test('axes end at round numbers', () => {
  const cases: [number, number][] = [
    [0, 2],
    [1, 2],
    [3, 4],
    [7, 8],
    [10, 10],
    [11, 20],
    [450, 600],
    [1_001, 2_000],
    [2_100, 4_000],
    [NaN, 2],
  ];
  for (const [value, end] of cases) assert.equal(roundUp(value), end, String(value));
});

test('failures stand on the baseline, and the parts make up the whole', () => {
  const parts = stack(bucket({ completed: 6, failed: 2, skipped: 2 }), 20);
  assert.deepEqual(
    parts.map(({ part }) => part),
    ['failed', 'skipped', 'completed'],
  );
  assert.equal(parts[0]?.from, 0);
  assert.equal(parts.at(-1)?.to, 0.5);
  assert.equal(total(bucket({ completed: 6, failed: 2 })), 8);
  assert.deepEqual(stack(bucket({}), 1), []);
});

test('a line is broken where nothing ran', () => {
  assert.deepEqual(stretches([1, 2, null, undefined, 3]), [
    [
      { at: 0, value: 1 },
      { at: 1, value: 2 },
    ],
    [{ at: 4, value: 3 }],
  ]);
  assert.deepEqual(stretches([null]), []);
});

test('labels are few and begin with the first', () => {
  assert.deepEqual(labelled(10, 5), [0, 2, 4, 6, 8]);
  assert.deepEqual(labelled(3, 10), [0, 1, 2]);
  assert.deepEqual(labelled(0, 5), []);
  assert.deepEqual(labelled(4, 0), [0]);
});

test('a tick is a time, and a day in the long window', () => {
  const at = Date.parse('2026-11-16T23:30:00Z');
  assert.equal(tick(at, '1h', 'UTC'), '23:30');
  assert.equal(tick(at, '7d', 'Europe/Berlin'), 'Tue 17');
});

test('in the long window the axis names each day once, where it begins', () => {
  const hours = (count: number) =>
    Array.from({ length: count }, (_, at) => Date.parse('2026-11-16T10:00:00Z') + at * 7_200_000);
  const found = named(hours(84), '7d', 'UTC', 10);
  assert.deepEqual(found, [7, 19, 31, 43, 55, 67, 79]);
  const words = found.map((nth) => tick(hours(84)[nth] ?? 0, '7d', 'UTC'));
  assert.equal(new Set(words).size, words.length);
  assert.deepEqual(named(hours(84), '7d', 'UTC', 4), [7, 31, 55, 79]);
  assert.deepEqual(named(hours(4), '24h', 'UTC', 2), [0, 2]);
});
