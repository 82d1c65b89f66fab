// The search for jobs: which words it has, what they ask of the API, and what may come next while somebody types.
import type { BulkFilter } from '../api/types';
import { flag } from './commands';
import { STATES, errorCodes } from './jobs';
import { type Search, readSearch, valueOf } from './search';
import { durationMs } from './time';

/** The words of the search and what each is about. */
export const JOB_KEYS: Record<string, string> = {
  state: 'such as failed or running',
  type: 'such as command or task:mail',
  queue: 'the name of a queue',
  tag: 'one of its tags',
  schedule: 'the name or id of a schedule',
  error: 'why it failed, such as timeout',
  since: 'made at this time or later: 2h, 2026-11-16',
  until: 'made before this time: 30m, 2026-11-16T08:00',
  owner: 'whose it is',
  id: 'one job',
};

const KEYS = Object.keys(JOB_KEYS);
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** A search for jobs as it is meant: a bare id or state needs no key. */
export function readJobSearch(text: string): Search {
  const search = readSearch(text, KEYS);
  const words: string[] = [];
  for (const word of search.words) {
    if (isUuid(word)) search.tokens.push({ key: 'id', value: word });
    else if ((STATES as readonly string[]).includes(word)) search.tokens.push({ key: 'state', value: word });
    else words.push(word);
  }
  return { tokens: search.tokens, words };
}

/** What is wrong with a search, in words that say what to write instead; `null` when nothing is. */
export function searchProblem(search: Search, now: number): string | null {
  const word = search.words[0];
  if (word !== undefined) return `“${word}” has no key: write type:${word}, tag:${word} or queue:${word}.`;
  for (const { key, value } of search.tokens) {
    if (key === 'state' && !(STATES as readonly string[]).includes(value))
      return `There is no state “${value}”: it is one of ${STATES.join(', ')}.`;
    if (key === 'error' && !errorCodes().includes(value))
      return `There is no error “${value}”: it is one of ${errorCodes().join(', ')}.`;
    if (key === 'id' && !isUuid(value))
      return `“${value}” is no id: ids look like 01a1e3cf-585f-7eb8-9c6a-5be3c26d93f8.`;
    if ((key === 'since' || key === 'until') && instant(value, now) === null)
      return `“${value}” is no time: write 2h (ago), 2026-11-16 or 2026-11-16T08:00.`;
  }
  return null;
}

/** The instant that `2h` (ago), a day or a time on this machine's clock mean; `null` when it is none of them. */
export function instant(text: string, now: number): string | null {
  const ago = durationMs(text);
  if (ago !== null) return new Date(now - ago).toISOString();
  if (!/^\d{4}-\d{2}-\d{2}/.test(text)) return null;
  // A day alone begins at midnight where the viewer is, and not in Greenwich.
  const at = Date.parse(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00` : text);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}

/** The filter that a search asks for; schedules by id, which whoever has only a name must look up before. */
export function jobFilter(search: Search, scheduleId: string | null, now: number): BulkFilter {
  const since = valueOf(search, 'since');
  const until = valueOf(search, 'until');
  const filter: Record<string, string | null> = {
    state: valueOf(search, 'state'),
    job_type: valueOf(search, 'type'),
    queue: valueOf(search, 'queue'),
    tag: valueOf(search, 'tag'),
    schedule_id: scheduleId,
    error_code: valueOf(search, 'error'),
    owner: valueOf(search, 'owner'),
    since: since === null ? null : instant(since, now),
    until: until === null ? null : instant(until, now),
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== null)) as BulkFilter;
}

/** The same filter as flags of `punctual job ls` and `punctual job bulk`. */
export function filterFlags(filter: BulkFilter): string[] {
  const flags: [string, string | null | undefined][] = [
    ['--state', filter.state],
    ['--queue', filter.queue],
    ['--schedule', filter.schedule_id],
    ['--type', filter.job_type],
    ['--error-code', filter.error_code],
    ['--tag', filter.tag],
    ['--since', filter.since],
    ['--until', filter.until],
  ];
  return flags.flatMap(([name, value]) => (value ? flag(name, value) : []));
}

export interface Suggestion {
  /** What is put in place of the word that is being typed. */
  text: string;
  /** What it means. */
  about: string;
}

/** The word around a place in a text. */
export function wordAt(text: string, place: number): { from: number; to: number; word: string } {
  const before = /\S*$/.exec(text.slice(0, place))?.[0] ?? '';
  const after = /^\S*/.exec(text.slice(place))?.[0] ?? '';
  return { from: place - before.length, to: place + after.length, word: before + after };
}

const TIMES: [string, string][] = [
  ['15m', 'fifteen minutes ago'],
  ['1h', 'an hour ago'],
  ['6h', 'six hours ago'],
  ['24h', 'a day ago'],
  ['7d', 'a week ago'],
];

const TYPES: [string, string][] = [
  ['command', 'programs'],
  ['http', 'calls of an address'],
  ['flow', 'flows as a whole'],
  ['graph', 'graphs'],
  ['task:', 'and the name of a handler'],
  ['sql:', 'and the name of a connection'],
];

/** The values that a key may have, as far as they are known. */
function values(key: string, queues: readonly string[]): [string, string][] {
  if (key === 'state') return STATES.map((state) => [state, '']);
  if (key === 'error') return errorCodes().map((code) => [code, '']);
  if (key === 'queue') return queues.map((queue) => [queue, '']);
  if (key === 'since' || key === 'until') return TIMES;
  return key === 'type' ? TYPES : [];
}

/** What may be meant by the word that is being typed: keys first, then what the key may be. */
export function suggestions(word: string, queues: readonly string[]): Suggestion[] {
  const colon = word.indexOf(':');
  if (colon < 0) {
    const asked = word.toLowerCase();
    return KEYS.filter((key) => key.startsWith(asked)).map((key) => ({ text: `${key}:`, about: JOB_KEYS[key] ?? '' }));
  }
  const key = word.slice(0, colon);
  const asked = word.slice(colon + 1).toLowerCase();
  return values(key, queues)
    .filter(([value]) => value.toLowerCase().startsWith(asked) && value.toLowerCase() !== asked)
    .map(([value, about]) => ({ text: `${key}:${/\s/.test(value) ? `"${value}"` : value}`, about }));
}
