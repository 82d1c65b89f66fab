// Log lines: colours become pieces, everything else is shown as what it is.
import assert from 'node:assert/strict';
import test from 'node:test';
import { pieces, plain, visible } from '../text/ansi';

const ESC = '\u001b';

test('colours and styles become pieces, and end', () => {
  assert.deepEqual(pieces(`a${ESC}[1;31mred${ESC}[0m b`), [
    { text: 'a', style: '' },
    { text: 'red', style: 'fg1 bold' },
    { text: ' b', style: '' },
  ]);
  assert.deepEqual(pieces(`${ESC}[92;44mx${ESC}[39my${ESC}[mz`), [
    { text: 'x', style: 'fg10 bg4' },
    { text: 'y', style: 'bg4' },
    { text: 'z', style: '' },
  ]);
});

test('256 colours and true colour do not leak into what follows', () => {
  assert.deepEqual(pieces(`${ESC}[38;5;196;1mx`), [{ text: 'x', style: 'bold' }]);
  assert.deepEqual(pieces(`${ESC}[48;2;1;2;3;4my`), [{ text: 'y', style: 'underline' }]);
});

test('other escapes are shown and do nothing', () => {
  assert.deepEqual(pieces(`${ESC}[2Jgone${ESC}]0;title\u0007`), [
    { text: '\u241b[2Jgone\u241b]0;title\u2407', style: '' },
  ]);
});

test('marks that turn the direction of text are made visible', () => {
  assert.equal(visible('safe\u202egpj.exe'), 'safe⟨U+202E⟩gpj.exe');
  assert.equal(visible('\u2066x\u2069\u200f\u009b'), '⟨U+2066⟩x⟨U+2069⟩⟨U+200F⟩⟨U+009B⟩');
  assert.equal(visible('tab\tand\nline'), 'tab\tand\nline');
  assert.equal(visible('a\rb\u0000'), 'a\u240db\u2400');
});

test('markup is text', () => {
  assert.deepEqual(pieces('<img src=x onerror=alert(1)>'), [{ text: '<img src=x onerror=alert(1)>', style: '' }]);
});

test('a line of one megabyte is read at once', () => {
  const line = `${ESC}[31m${'x'.repeat(1_000_000)}`;
  assert.equal(pieces(line)[0]?.text.length, 1_000_000);
  assert.equal(plain(line).length, 1_000_000);
});

test('plain has no colours', () => {
  assert.equal(plain(`${ESC}[31mred${ESC}[0m`), 'red');
});
