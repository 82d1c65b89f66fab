// The search box: what is written is read back the same.
import assert from 'node:assert/strict';
import test from 'node:test';
import { type Search, readSearch, valueOf, withValue, writeSearch } from '../text/search';

const KEYS = ['state', 'queue', 'tag', 'error'] as const;

test('keys that are known are tokens, the rest are words', () => {
  const search = readSearch('state:failed http://x queue:mail hello', KEYS);
  assert.deepEqual(search.tokens, [
    { key: 'state', value: 'failed' },
    { key: 'queue', value: 'mail' },
  ]);
  assert.deepEqual(search.words, ['http://x', 'hello']);
});

test('values with spaces, quotes and backslashes come back the same', () => {
  const values = ['plain', 'two words', 'say "hi"', 'back\\slash', 'a\\ "b" \\\\', '"', '\\', 'x:y', '', 'tab\tbed'];
  for (const value of values) {
    const search: Search = { tokens: [{ key: 'tag', value }], words: [] };
    const read = readSearch(writeSearch(search), KEYS);
    assert.deepEqual(read, search, JSON.stringify(value));
  }
});

test('words come back the same, also those that look like tokens', () => {
  for (const word of ['plain', 'two words', 'http://x', 'state:failed', '"', 'a"b', '\\', 'back\\slash']) {
    const search: Search = { tokens: [], words: [word] };
    assert.deepEqual(readSearch(writeSearch(search), KEYS), search, JSON.stringify(word));
  }
});

test('the last value of a key wins, and can be replaced or taken away', () => {
  const search = readSearch('state:failed state:running x', KEYS);
  assert.equal(valueOf(search, 'state'), 'running');
  assert.equal(valueOf(search, 'queue'), null);
  assert.equal(writeSearch(withValue(search, 'state', 'queued')), 'state:queued x');
  assert.equal(writeSearch(withValue(search, 'state', null)), 'x');
});

test('half of a quote is a word', () => {
  assert.deepEqual(readSearch('tag:"open', KEYS).tokens, [{ key: 'tag', value: '"open' }]);
});
