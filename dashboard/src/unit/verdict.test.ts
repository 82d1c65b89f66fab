// The verdict: what is wrong is said, what is well is not.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Alert, Schedule, Node, Queue, Stats } from '../api/types';
import { type Watched, errorShape, failingSince, lostLately, verdict } from '../text/verdict';

const NOW = Date.parse('2026-11-16T10:00:00Z');
const at = (ms: number) => new Date(NOW + ms).toISOString();

function stats(more: Partial<Stats['schedules']> = {}, nodes = 2): Stats {
  const schedules = { total: { count: 12, more: false }, paused: 0, failing: 0, with_problem: 0, ...more };
  return { schedules, nodes } as Stats;
}

function schedule(name: string, more: object = {}): Schedule {
  return { id: `id of ${name}`, name, enabled: true, ...more } as Schedule;
}

function failed(name: string, error: string): Schedule {
  const run = { outcome: 'failed', error_code: 'target_error', error, finished_at: at(-1_000), job_id: 'j' };
  return schedule(name, { recent: [run] });
}

const WELL: Watched = {
  ...{ now: NOW, stats: stats(), failing: [], next: [], stuck: [], queues: [], alerts: [], nodes: [] },
};
const said = (more: Partial<Watched>) => verdict({ ...WELL, ...more }).parts.map(({ text }) => text);

test('all well says how many there are and what comes next', () => {
  const next = [schedule('a', { next_run_at: at(42_000) })];
  assert.deepEqual(verdict({ ...WELL, next }), {
    isWell: true,
    parts: [{ text: '12 schedules, the next is due in 42s', href: 'schedules', isBad: false }],
  });
});

test('a frozen store is told first, and why', () => {
  const frozen = { level: 'starts', why: 'it is being moved', since: at(-1_000) };
  const { isWell, parts } = verdict({ ...WELL, stats: { ...stats(), frozen }, failing: [failed('a', 'x')] });
  assert.deepEqual([isWell, parts[0]?.text], [false, 'the store is frozen: it is being moved']);
});

test('failures that share an error are told so', () => {
  const failing = [
    failed('a', 'connect to "10.0.0.1:5432": refused after 3 tries'),
    failed('b', 'connect to "10.0.0.2:5432": refused after 12 tries'),
    failed('c', 'no such file'),
  ];
  assert.deepEqual(said({ failing, stats: stats({ failing: 3 }) }), ['3 schedules failing, 2 share the same error']);
  assert.deepEqual(said({ failing: failing.slice(0, 2) }), ['2 schedules failing, all with the same error']);
  assert.deepEqual(said({ failing: failing.slice(1) }), ['2 schedules failing']);
});

test('there may be more failing than were listed', () => {
  assert.deepEqual(said({ failing: [failed('a', 'x')], stats: stats({ failing: 30 }) }), ['30 schedules failing']);
});

test('overdue is what is a minute late, not what is about to be decided', () => {
  const next = [schedule('late', { next_run_at: at(-125_000) }), schedule('due', { next_run_at: at(-30_000) })];
  assert.deepEqual(said({ next }), ['1 overdue, by up to 2m 5s']);
  assert.deepEqual(said({ next: [schedule('paused', { enabled: false, next_run_at: at(-125_000) })] }).length, 1);
  assert.ok(verdict({ ...WELL, next: [schedule('paused', { enabled: false, next_run_at: at(-125_000) })] }).isWell);
});

test('a schedule that cannot fire leads to itself', () => {
  const { parts } = verdict({ ...WELL, stuck: [schedule('a/b', { problem: 'no executor' })] });
  assert.deepEqual(parts, [{ text: '1 schedule cannot fire', href: 'schedules/id%20of%20a%2Fb', isBad: true }]);
});

test('a paused queue counts when jobs wait in it', () => {
  const queue = (name: string, paused: boolean, count: number) =>
    ({ name, paused, depth: { count, more: false } }) as Queue;
  assert.deepEqual(said({ queues: [queue('newsletter', true, 40), queue('mail', false, 9), queue('old', true, 0)] }), [
    'queue newsletter paused with 40 waiting',
  ]);
  assert.deepEqual(said({ queues: [queue('a', true, 40), queue('b', true, 2)] }), ['2 queues paused with 42 waiting']);
});

test('alerts that somebody has acknowledged are no alarm', () => {
  const open = { id: '1' } as Alert;
  const taken = { id: '2', acknowledged: { at: at(0) } } as Alert;
  assert.deepEqual(verdict({ ...WELL, alerts: [open, taken] }).parts, [
    { text: '2 open alerts', href: 'notifications', isBad: true },
  ]);
  assert.equal(verdict({ ...WELL, alerts: [taken] }).parts[0]?.isBad, false);
});

test('a lost node counts for a day, unless it has come back', () => {
  const node = (name: string, more: object) => ({ id: name, name, alive: false, ...more }) as Node;
  const lost = node('a', { lost_at: at(-3_600_000) });
  const nodes = [lost, node('b', { lost_at: at(-90_000_000) }), node('c', { left_at: at(-1_000) })];
  assert.deepEqual(lostLately(nodes, NOW), [lost]);
  assert.deepEqual(lostLately([...nodes, node('a', { alive: true })], NOW), []);
  assert.deepEqual(said({ nodes }), ['1 node lost']);
  assert.deepEqual(said({ stats: stats({}, 0) }), ['no node is alive: nothing runs']);
});

test('errors of one cause have one shape', () => {
  const shape = errorShape('job 0199a7c4-1111-7222-8333-444455556666 of `x` took 12.5s\nmore');
  assert.equal(shape, errorShape('Job 0199a7c4-9999-7222-8333-444455556666 of `y` took 3.25s'));
  assert.notEqual(errorShape('refused'), errorShape('timed out'));
});

test('failing since the first failure after the last success', () => {
  const run = (outcome: string, ms: number) => ({ outcome, finished_at: at(ms) });
  const recent = [run('failed', -1_000), run('skipped', -2_000), run('failed', -3_000), run('completed', -4_000)];
  assert.equal(failingSince(schedule('a', { recent })), at(-3_000));
  assert.equal(failingSince(schedule('a')), null);
});
