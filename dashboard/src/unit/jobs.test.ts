// What a job is and does, in a few words.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Job } from '../api/types';
import { parseExact } from '../text/exact';
import {
  errorInWords,
  inputLine,
  isAlive,
  mayBeAttempt,
  runLength,
  targetLine,
  targetType,
  waitLength,
} from '../text/jobs';

const NOW = Date.parse('2026-11-16T10:00:10Z');

function job(more: object): Job {
  return { state: 'completed', created_at: '2026-11-16T10:00:00Z', ...more } as Job;
}

test('each kind of target has a type and a line', () => {
  const cases: [object, string, string][] = [
    [{ kind: 'command', argv: ['sh', '-c', 'x y'] }, 'command', 'sh -c x y'],
    [{ kind: 'command', shell: 'make all' }, 'command', 'make all'],
    [{ kind: 'http', url: 'https://x' }, 'http', 'POST https://x'],
    [{ kind: 'http', method: 'GET', url: 'https://x' }, 'http', 'GET https://x'],
    [{ kind: 'sql', connection: 'reports', statement: 'SELECT 1' }, 'sql:reports', 'reports SELECT 1'],
    [{ kind: 'task', name: 'mail' }, 'task:mail', 'mail'],
    [{ kind: 'flow', name: 'etl' }, 'flow', 'etl'],
    [{ kind: 'graph', id: 'flow:etl' }, 'graph', 'flow:etl'],
    [{ kind: 'something' }, 'something', 'something'],
  ];
  for (const [target, type, line] of cases) {
    assert.equal(targetType(target), type);
    assert.equal(targetLine(target), line);
  }
});

test('the input is short and exact', () => {
  assert.equal(inputLine({}), '');
  assert.equal(inputLine(null), '');
  assert.equal(inputLine(parseExact('{"id":9007199254740993}')), '{"id":9007199254740993}');
  assert.equal(inputLine('x'.repeat(200)).length, 80);
});

test('a run is as long as it took, or as it takes', () => {
  const run = { started_at: '2026-11-16T10:00:02Z', finished_at: '2026-11-16T10:00:05Z' };
  assert.equal(runLength(job({ run }), NOW), 3_000);
  assert.equal(runLength(job({ state: 'running', run: { ...run, finished_at: null } }), NOW), 8_000);
  assert.equal(runLength(job({}), NOW), null);
  assert.equal(runLength(job({ run: { ...run, finished_at: '2026-11-16T09:00:00Z' } }), NOW), 0);
});

test('a wait begins in the queue and ends with the run', () => {
  const queued = { state: 'queued', queued_at: '2026-11-16T10:00:04Z' };
  assert.equal(waitLength(job(queued), NOW), 6_000);
  assert.equal(waitLength(job({ run: { started_at: '2026-11-16T10:00:02Z' } }), NOW), 2_000);
  assert.equal(waitLength(job({ state: 'scheduled' }), NOW), null);
  assert.equal(waitLength(job({ state: 'cancelled' }), NOW), null);
});

test('alive is what has not ended', () => {
  assert.ok(isAlive('waiting') && isAlive('running'));
  assert.ok(!isAlive('completed') && !isAlive('skipped'));
});

test('errors have words', () => {
  assert.equal(errorInWords('timeout'), 'it took longer than it may');
  assert.equal(errorInWords(null), '');
});

test('a chain of attempts is only concerned by its own jobs and by what may follow them', () => {
  const chain = [3, 2, 1].map((attempt) => job({ id: `j${attempt}`, queue: 'mail', attempt }));
  assert.ok(mayBeAttempt({ id: 'j1', queue: 'mail', attempt: 1 }, chain));
  assert.ok(mayBeAttempt({ id: 'new', queue: 'mail', attempt: 4 }, chain));
  assert.ok(!mayBeAttempt({ id: 'new', queue: 'mail', attempt: 3 }, chain), 'a retry of another job');
  assert.ok(!mayBeAttempt({ id: 'new', queue: 'other', attempt: 4 }, chain));
  assert.ok(!mayBeAttempt({}, chain) && !mayBeAttempt({ attempt: 1 }, []));
});
