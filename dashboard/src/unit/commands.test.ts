// Commands that are copied must reach the program word by word: a real shell reads them here.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { commandLine, curl, quoted } from '../text/commands';

function heard(line: string): string[] {
  const script = `set -- ${line}; for word in "$@"; do printf '%s\\0' "$word"; done`;
  return execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\0').slice(0, -1);
}

const WORDS = [
  ...['plain', 'two words', "it's", '"', '$HOME', '`id`', '$(id)', '*', '~', '#', ';', '&&', '|', '\\', "'\\''"],
  ...['', 'ümlaut', '0 9 * * 1-5', '{"a": "b\'c"}', 'line\nbreak', '!x', '-n', '<img onerror=x>', 'a=b', '\t', '%s'],
];

test('each word comes through a shell as it is', () => {
  for (const word of WORDS) assert.deepEqual(heard(quoted(word)), [word], JSON.stringify(word));
  assert.deepEqual(heard(commandLine(...WORDS)), WORDS);
});

test('a command needs no quotes where none are due', () => {
  assert.equal(commandLine('punctual', 'job', 'ls', '--state', 'failed'), 'punctual job ls --state failed');
});

test('curl gets its address, its body and the token of the environment', () => {
  const line = curl('POST', 'https://x.example/api/v1/jobs?a=1&b=2', '{"q":"it\'s"}');
  assert.deepEqual(heard(`PUNCTUAL_TOKEN=secret; set -- ${line}`.replace(/^.*?set -- /, '')).slice(0, 4), [
    'curl',
    '--fail-with-body',
    '--request',
    'POST',
  ]);
  const words = heard(line);
  assert.equal(words.at(-1), 'https://x.example/api/v1/jobs?a=1&b=2');
  assert.equal(words[words.indexOf('--data') + 1], '{"q":"it\'s"}');
  assert.ok(!line.includes('secret'));
  assert.ok(line.includes('$PUNCTUAL_TOKEN'));
});

test('a question by curl has no body and no method', () => {
  const words = heard(curl('GET', 'http://x/api/v1/jobs'));
  assert.ok(!words.includes('--request') && !words.includes('--data'));
});
