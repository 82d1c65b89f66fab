// Wall-clock times mean one instant in their zone, also where a clock change leaves one out or brings it twice.
import assert from 'node:assert/strict';
import test from 'node:test';
import { columnOf, dayFrom, daysOfMonth, instantText, isDay, monthFrom, wallTime } from '../text/wallclock';

test('a time is read in its zone', () => {
  assert.equal(instantText('2026-11-16T09:00', 'Europe/Berlin'), '2026-11-16T08:00:00Z');
  assert.equal(instantText('2026-07-16T09:00', 'Europe/Berlin'), '2026-07-16T07:00:00Z');
  assert.equal(instantText('2026-11-16T09:00', 'Asia/Kathmandu'), '2026-11-16T03:15:00Z');
  assert.equal(instantText('', 'UTC'), null);
  assert.equal(wallTime(Date.parse('2026-11-16T08:00:00Z'), 'Europe/Berlin'), '2026-11-16T09:00');
});

test('a year that is being typed is read, and one that no calendar has is none', () => {
  assert.equal(instantText('0002-11-16T09:46', 'UTC'), '0002-11-16T09:46:00Z');
  assert.equal(instantText('0202-11-16T09:46', 'UTC'), '0202-11-16T09:46:00Z');
  assert.equal(wallTime(Date.parse('0020-11-16T09:46:00Z'), 'UTC'), '0020-11-16T09:46');
  for (const year of ['0000', '0001', '9999', '12026', '275760']) {
    for (const day of ['01-01T00:00', '09-13T00:00', '12-31T23:59']) {
      for (const zone of ['UTC', 'Europe/Berlin', 'Pacific/Kiritimati']) {
        assert.doesNotThrow(() => instantText(`${year}-${day}`, zone), `${year}-${day} ${zone}`);
      }
    }
  }
  assert.equal(instantText('12026-11-16T09:46', 'UTC'), null);
});

test('of a time that comes twice it is the first, and one that does not come is after the gap', () => {
  assert.equal(instantText('2026-10-25T02:30', 'Europe/Berlin'), '2026-10-25T00:30:00Z');
  assert.equal(instantText('2027-03-28T02:30', 'Europe/Berlin'), '2027-03-28T01:30:00Z');
});

test('months and weeks are counted', () => {
  assert.equal(daysOfMonth('2028-02').length, 29);
  assert.equal(monthFrom('2026-12', 1), '2027-01');
  assert.equal(dayFrom('2026-11-30', 1), '2026-12-01');
  assert.equal(columnOf('2026-11-16'), 0);
  assert.equal(columnOf('2026-11-22'), 6);
  assert.deepEqual(['2026-11-30', '2026-11-31', '2026-13-01', 'x', '-01'].map(isDay), [
    true,
    false,
    false,
    false,
    false,
  ]);
});
