// What changed between two values, told field by field.
import assert from 'node:assert/strict';
import test from 'node:test';
import { changeOf, difference } from '../text/difference';
import { parseExact } from '../text/exact';

test('only what differs is told, with its place', () => {
  assert.deepEqual(difference({ a: 1, b: { c: 'x', d: [1, 2] } }, { a: 1, b: { c: 'y', d: [1, 3] }, e: null }), [
    { path: 'b.c', before: '"x"', after: '"y"' },
    { path: 'b.d[1]', before: '2', after: '3' },
    { path: 'e', before: null, after: 'null' },
  ]);
});

test('a field that is gone has nothing after', () => {
  assert.deepEqual(difference({ a: 1 }, {}), [{ path: 'a', before: '1', after: null }]);
});

test('lists of other lengths are told as a whole', () => {
  assert.deepEqual(difference({ tags: ['a'] }, { tags: ['b', 'a'] }), [
    { path: 'tags', before: '["a"]', after: '["b","a"]' },
  ]);
});

test('names that are no words are quoted in the place', () => {
  assert.deepEqual(difference({ labels: { 'a b': 1 } }, { labels: { 'a b': 2 } })[0]?.path, 'labels["a b"]');
});

test('the last digit of a 64-bit number is a change', () => {
  const [change] = difference(parseExact('{"id":9007199254740993}'), parseExact('{"id":9007199254740992}'));
  assert.deepEqual(change, { path: 'id', before: '9007199254740993', after: '9007199254740992' });
  assert.deepEqual(difference(parseExact('[1.0]'), parseExact('[1.0]')), []);
});

test('a value of another kind is told as a whole', () => {
  assert.deepEqual(difference({ a: { b: 1 } }, { a: [1] }), [{ path: 'a', before: '{"b":1}', after: '[1]' }]);
});

test('versions and times of change are beside the point', () => {
  const before = { name: 'x', version: 1, updated_at: 'a', target: { version: 1 } };
  const after = { name: 'y', version: 2, updated_at: 'b', target: { version: 2 } };
  assert.deepEqual(
    changeOf(before, after).map(({ path }) => path),
    ['name', 'target.version'],
  );
});
