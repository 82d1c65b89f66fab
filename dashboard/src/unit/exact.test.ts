// JSON must come out as it went in, every digit of it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ExactNumber, parseExact, writeExact } from '../text/exact';

const same = (text: string) => assert.equal(writeExact(parseExact(text)), text);

test('64-bit numbers keep their digits, wherever they are', () => {
  same('9223372036854775807');
  same('-9223372036854775808');
  same('18446744073709551615');
  same('{"id":9007199254740993,"nested":[{"big":[12345678901234567890]}],"small":1}');
});

test('fractions and exponents stay as they were written', () => {
  same('0.1000');
  same('1.0');
  same('1e400');
  same('-0');
  same('-0.0');
  same('1E+2');
  same('123456789.123456789123456789');
  same('[1e-400,2.50]');
});

test('numbers that JavaScript holds are numbers', () => {
  assert.equal(parseExact('42'), 42);
  assert.equal(parseExact('-1.5'), -1.5);
  assert.deepEqual(parseExact('[1,{"a":2}]'), [1, { a: 2 }]);
});

test('an exact number can be counted with and shown', () => {
  const big = parseExact('9007199254740993');
  assert.ok(big instanceof ExactNumber);
  assert.equal(String(big), '9007199254740993');
  assert.ok(Number(big) > 9e15);
});

test('strings are untouched, with escapes and with what looks like numbers', () => {
  const text = '{"a":"9007199254740993","b":"quote \\" and \\\\ 1.0","c":"\\ud83d\\ude00","n":1.0}';
  const value = parseExact(text) as Record<string, unknown>;
  assert.equal(value.a, '9007199254740993');
  assert.equal(value.b, 'quote " and \\ 1.0');
  assert.equal(value.c, '😀');
  assert.equal(writeExact(value.n), '1.0');
});

test('a string that ends in an escaped backslash ends there', () => {
  assert.deepEqual(parseExact('["\\\\",1.0,"x"]') as unknown[], ['\\', new ExactNumber('1.0'), 'x']);
});

test('space between the parts does not matter', () => {
  same('[1.0,true,false,null,"x"]');
  assert.equal(writeExact(parseExact(' { "a" : [ 1.0 , true , null ] , "b" : { } } ')), '{"a":[1.0,true,null],"b":{}}');
});

test('a field called __proto__ is a field', () => {
  const value = parseExact('{"__proto__":{"x":1.0}}') as object;
  assert.equal(writeExact(value), '{"__proto__":{"x":1.0}}');
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test('a very long list of lossy numbers is read', () => {
  same(`[${new Array(20_000).fill('1.0').join(',')}]`);
});

test('what is no JSON is refused as JSON.parse does', () => {
  assert.throws(() => parseExact('{"a":1.0,}'), SyntaxError);
  assert.throws(() => parseExact('01'), SyntaxError);
  assert.throws(() => parseExact(''), SyntaxError);
});

test('an indent is for people', () => {
  assert.equal(writeExact(parseExact('{"a":[1.0,{}],"b":[]}'), 2), '{\n  "a": [\n    1.0,\n    {}\n  ],\n  "b": []\n}');
});
