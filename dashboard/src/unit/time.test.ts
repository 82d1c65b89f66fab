// Times and lengths of time in words.
import assert from 'node:assert/strict';
import test from 'node:test';
import { date, dateTime, durationMs, fullTime, knownZone, length, relative, timeOfDay, weekday } from '../text/time';

const AT = Date.parse('2026-11-16T08:46:35.500Z');

test('a time is shown on the wall clock of its zone', () => {
  assert.equal(dateTime(AT, 'UTC'), '2026-11-16 08:46:35');
  assert.equal(dateTime(AT, 'Europe/Berlin'), '2026-11-16 09:46:35');
  assert.equal(dateTime(AT, 'Asia/Kathmandu'), '2026-11-16 14:31:35');
  assert.equal(date(AT, 'Pacific/Kiritimati'), '2026-11-16');
  assert.equal(date(Date.parse('2026-11-16T23:30:00Z'), 'Europe/Berlin'), '2026-11-17');
  assert.equal(timeOfDay(AT, 'America/New_York'), '03:46');
  assert.equal(weekday(AT, 'UTC'), 'Mon');
});

test('midnight is 00, not 24', () => {
  assert.equal(dateTime(Date.parse('2026-01-01T00:00:00Z'), 'UTC'), '2026-01-01 00:00:00');
});

test('both hours of a clock change are told apart by the name of the zone', () => {
  const first = fullTime(Date.parse('2026-10-25T00:30:00Z'), 'Europe/Berlin');
  const second = fullTime(Date.parse('2026-10-25T01:30:00Z'), 'Europe/Berlin');
  assert.match(first, /^Sun 2026-10-25 02:30:00 /);
  assert.match(second, /^Sun 2026-10-25 02:30:00 /);
  assert.notEqual(first, second);
});

test('a zone that nobody knows is UTC', () => {
  assert.equal(knownZone('Mars/Olympus'), 'UTC');
  assert.equal(knownZone(null), 'UTC');
  assert.equal(knownZone('Europe/Berlin'), 'Europe/Berlin');
});

test('lengths have the two largest units', () => {
  const cases: [number, string][] = [
    [0, '0ms'],
    [340, '340ms'],
    [999.6, '1.0s'],
    [9_949, '9.9s'],
    [9_999, '10s'],
    [12_000, '12s'],
    [65_000, '1m 5s'],
    [3_600_000, '1h'],
    [3_900_000, '1h 5m'],
    [90_000_000, '1d 1h'],
    [-5_000, '0ms'],
  ];
  for (const [ms, words] of cases) assert.equal(length(ms), words, String(ms));
});

test('relative says which way', () => {
  assert.equal(relative(AT + 400, AT), 'now');
  assert.equal(relative(AT + 5_400, AT), 'in 5s');
  assert.equal(relative(AT - 7_200_000, AT), '2h ago');
  assert.equal(relative(AT + 9_900, AT), 'in 10s');
});

test('durations of the API are read', () => {
  assert.equal(durationMs('1h30m'), 5_400_000);
  assert.equal(durationMs('250ms'), 250);
  assert.equal(durationMs('1.5s'), 1_500);
  assert.equal(durationMs('2w'), 1_209_600_000);
  assert.equal(durationMs('none'), null);
  assert.equal(durationMs('5 parsecs'), null);
  assert.equal(durationMs(''), null);
});
