// What the editor of a schedule sends: nothing that was not said, nothing lost on the way, and the same by command.
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Schedule } from '../api/types';
import { readCron } from '../text/cron';
import { parseExact, writeExact } from '../text/exact';
import { addCommand, editCommand } from '../text/scheduleCommand';
import { bodyOf, draftOf, newDraft, patchOf, rebased } from '../text/scheduleDraft';
import { splitWords } from '../text/words';

const STORED = `{"id":"01a1","name":"nightly","description":"All of it","labels":{"team":"shop"},"cron":"30 2 * * *",
"timezone":"Europe/Berlin","dst_gap":"next","dst_overlap":"both","starts_at":null,"ends_at":"2027-01-01T00:00:00Z",
"calendar":null,"target":{"kind":"command","argv":["echo","it's here","--x"],"env":{"LANG":"C"}},
"input":{"n":12345678901234567890,"f":1.10},"queue":"billing","priority":-10,"tags":["db"],"serial":true,
"retry":{"max_attempts":3,"backoff":"exponential","base":"1s","max":"10m","max_interruptions":10},"timeout":"1h",
"missed":{"policy":"all","limit":10},"overlap":"forbid","max_concurrent_runs":null,"burst_allowed":false,
"pause_after_failures":5,"jitter":null,"depends_on":null,"grant_id":null,"enabled":true,"in_words":"…"}`;
const stored = () => parseExact(STORED) as Schedule;

test('a schedule that is read and not changed is sent back as it was', () => {
  const { body, wrong } = bodyOf(draftOf(stored()));
  assert.deepEqual(wrong, []);
  assert.deepEqual(patchOf(body, bodyOf(draftOf(stored())).body), {});
  assert.equal(writeExact(body.target), writeExact(stored().target));
  assert.equal(writeExact(body.input), '{"n":12345678901234567890,"f":1.10}');
  assert.equal(body.ends_at, '2027-01-01T00:00:00Z');
  assert.deepEqual(body.tags, ['db']);
});

test('a patch holds what changed, and null for what was taken away', () => {
  const draft = draftOf(stored());
  const was = bodyOf(draftOf(stored())).body;
  draft.plan = { ...draft.plan, kind: 'every', every: '2h' };
  draft.description = '';
  draft.queue = 'default';
  const patch = patchOf(was, bodyOf(draft).body);
  const gone = { description: null, cron: null, timezone: null, dst_overlap: null, queue: null };
  assert.deepEqual(patch, { ...gone, every: '2h' });
});

test('an input that is emptied is an empty one, and not null', () => {
  const was = bodyOf(draftOf(stored())).body;
  for (const typed of ['{}', ' { } ', '']) {
    assert.deepEqual(patchOf(was, bodyOf({ ...draftOf(stored()), input: typed }).body), { input: {} });
  }
  const ofNull = bodyOf({ ...draftOf(stored()), input: 'null' }).body;
  assert.deepEqual(patchOf(was, ofNull), { input: null });
  assert.deepEqual(patchOf(ofNull, bodyOf({ ...draftOf(stored()), input: '{}' }).body), { input: {} });
});

test('a time that was cleared or cannot be read is told, and not made up or left out', () => {
  const draft = { ...draftOf(stored()), endsAt: '12027-01-01T00:00' };
  draft.plan = { ...draft.plan, time: '' };
  assert.deepEqual(bodyOf(draft).wrong, [
    { pointer: '/time', detail: 'choose a time of day' },
    { pointer: '/ends_at', detail: 'choose a date and a time' },
  ]);
});

test('what is wrong is told at its field', () => {
  const draft = newDraft('UTC');
  draft.input = '{';
  draft.target.command = "echo 'open";
  draft.priority = 'high';
  draft.plan = { ...readCron('0 9 * * 1'), days: [] };
  draft.more = '[1]';
  const pointers = bodyOf(draft).wrong.map(({ pointer }) => pointer);
  assert.deepEqual(pointers.sort(), ['/cron', '/input', '/more', '/name', '/priority', '/target/argv']);
});

test('the command says the same, or there is none', () => {
  const draft = newDraft('Europe/Berlin');
  draft.name = 'my job';
  draft.target.command = "backup.sh --all 'a b'";
  draft.priority = '-5';
  draft.attempts = '2';
  const { body } = bodyOf(draft);
  assert.equal(
    addCommand(body),
    "punctual schedule add 'my job' --cron '0 9 * * *' --tz Europe/Berlin --attempts 2 --priority=-5 -- backup.sh --all 'a b'",
  );
  assert.equal(addCommand({ ...body, retry: { max_attempts: 2, base: '5s' } }), null);
  assert.equal(editCommand('a', { description: null }), null);
  assert.equal(editCommand('a', { calendar: null, name: 'b' }), 'punctual schedule edit a --name b --no-calendar');
});

test('words are split as a shell splits them', () => {
  assert.deepEqual(splitWords(`a "b c" d\\ e 'f'\\''g' ""`).words, ['a', 'b c', 'd e', "f'g", '']);
  assert.equal(splitWords('a "b').problem, 'the " at character 3 is not closed');
});

test('when somebody else was quicker, what was typed is put on top of theirs', () => {
  const [mine, base] = [draftOf(stored()), draftOf(stored())];
  mine.timeout = '5m';
  const theirs = draftOf({ ...stored(), description: 'Theirs', timeout: '2h' });
  const merged = rebased(mine, base, theirs);
  assert.equal(merged.timeout, '5m');
  assert.equal(merged.description, 'Theirs');
  assert.deepEqual(patchOf(bodyOf(theirs).body, bodyOf(merged).body), { timeout: '5m' });
});
