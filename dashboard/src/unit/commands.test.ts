// Commands that are copied must reach the program word by word: a real shell reads them here.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { channelCommand, NO_CHANNEL } from '../text/channels';
import { commandLine, commandOn, commandWithProgram, curl, flag, quoted } from '../text/commands';
import { filterFlags } from '../text/jobSearch';
import { addCommand, editCommand } from '../text/scheduleCommand';

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

test('a value that begins with a dash is one word with its flag', () => {
  assert.deepEqual(flag('--note', 'why not'), ['--note', 'why not']);
  assert.deepEqual(flag('--note', ''), ['--note', '']);
  assert.deepEqual(flag('--note', '-n'), ['--note=-n']);
  assert.deepEqual(flag('--input', '-1'), ['--input=-1']);
  assert.deepEqual(filterFlags({ queue: '-q', tag: 't' }), ['--queue=-q', '--tag', 't']);
});

test('a name that begins with a dash comes last, where it is no flag', () => {
  assert.equal(commandOn('schedule pause', ['a b'], ['--note', 'x']), "punctual schedule pause 'a b' --note x");
  const words = heard(commandOn('schedule pause', ['-a b'], flag('--note', '--x')));
  assert.deepEqual(words, ['punctual', 'schedule', 'pause', '--note=--x', '--', '-a b']);
  assert.equal(commandOn('why', ['--a', 'TIME']), 'punctual why -- --a TIME');
  assert.equal(commandOn('schedule ls', []), 'punctual schedule ls');
  const channel = { ...NO_CHANNEL, kind: 'slack' as const, name: '-ops', url: 'env:A', description: '-' };
  assert.equal(channelCommand(channel, true), 'punctual channel add --slack env:A --description=- -- -ops');
});

test('where a program follows `--`, a name that begins with a dash has no command', () => {
  assert.equal(commandWithProgram('queue reserve', 'mail', ['--for', '1h']), 'punctual queue reserve mail --for 1h');
  assert.equal(commandWithProgram('queue reserve', '-mail', ['--for', '1h']), null);
  const body = { cron: '0 9 * * *', queue: '-q', tags: ['-t'], target: { kind: 'command', argv: ['ls', '-l'] } };
  assert.equal(addCommand({ name: '-n', ...body }), null);
  assert.equal(
    addCommand({ name: 'n', ...body }),
    "punctual schedule add n --cron '0 9 * * *' --queue=-q --tag=-t -- ls -l",
  );
  assert.equal(editCommand('-n', { queue: 'q' }), null);
  assert.equal(editCommand('n', { name: '-m' }), 'punctual schedule edit n --name=-m');
});
