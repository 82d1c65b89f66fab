// The search for jobs: what it asks for, what it refuses, what it suggests.
import assert from 'node:assert/strict';
import test from 'node:test';
import { filterFlags, instant, jobFilter, readJobSearch, searchProblem, suggestions, wordAt } from '../text/jobSearch';

const NOW = Date.parse('2026-11-16T10:00:00Z');
const ID = '01a1e3cf-585f-7eb8-9c6a-5be3c26d93f8';

test('a search becomes the filter of the API', () => {
  const search = readJobSearch('state:failed queue:mail type:task:mail tag:"a b" error:timeout since:2h owner:ann');
  assert.deepEqual(jobFilter(search, ID, NOW), {
    state: 'failed',
    queue: 'mail',
    job_type: 'task:mail',
    tag: 'a b',
    schedule_id: ID,
    error_code: 'timeout',
    owner: 'ann',
    since: '2026-11-16T08:00:00.000Z',
  });
  assert.equal(searchProblem(search, NOW), null);
});

test('an empty search asks for everything', () => {
  assert.deepEqual(jobFilter(readJobSearch(''), null, NOW), {});
});

test('a state or an id needs no key', () => {
  const search = readJobSearch(`failed ${ID}`);
  assert.deepEqual(search.tokens, [
    { key: 'state', value: 'failed' },
    { key: 'id', value: ID },
  ]);
});

test('what cannot be meant is refused with what to write', () => {
  const problem = (text: string) => searchProblem(readJobSearch(text), NOW) ?? '';
  assert.match(problem('hello'), /tag:hello/);
  assert.match(problem('state:done'), /completed/);
  assert.match(problem('error:oops'), /target_error/);
  assert.match(problem('since:yesterday'), /2h/);
  assert.match(problem('id:7'), /no id/);
});

test('times are lengths before now, days and instants', () => {
  assert.equal(instant('90m', NOW), '2026-11-16T08:30:00.000Z');
  assert.equal(instant('2026-11-15T08:00:00Z', NOW), '2026-11-15T08:00:00.000Z');
  assert.equal(instant('2026-11-15', NOW), new Date(2026, 10, 15).toISOString());
  assert.equal(instant('2026-99-99', NOW), null);
  assert.equal(instant('soon', NOW), null);
});

test('keys are suggested first, then what they may be', () => {
  assert.deepEqual(
    suggestions('s', []).map(({ text }) => text),
    ['state:', 'schedule:', 'since:'],
  );
  assert.deepEqual(
    suggestions('state:c', []).map(({ text }) => text),
    ['state:completed', 'state:cancelled'],
  );
  assert.deepEqual(
    suggestions('queue:', ['mail', 'two words']).map(({ text }) => text),
    ['queue:mail', 'queue:"two words"'],
  );
  assert.deepEqual(suggestions('state:failed', []), []);
});

test('the word around the caret is the one that is typed', () => {
  assert.deepEqual(wordAt('state:failed queue:ma', 21), { from: 13, to: 21, word: 'queue:ma' });
  assert.deepEqual(wordAt('state:failed queue:ma', 3), { from: 0, to: 12, word: 'state:failed' });
  assert.deepEqual(wordAt('state:failed ', 13), { from: 13, to: 13, word: '' });
});

test('a filter is written as flags', () => {
  const flags = ['--state', 'failed', '--queue', 'mail', '--error-code', 'timeout'];
  assert.deepEqual(filterFlags({ state: 'failed', queue: 'mail', error_code: 'timeout' }), flags);
});
