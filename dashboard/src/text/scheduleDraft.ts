// The editor of a schedule: its fields as they are typed, made from a schedule and turned into what the API takes.
import type { Schedule, Target } from '../api/types';
import { commandLine } from './commands';
import { type Plan, lacking, newPlan, readCron, writeCron } from './cron';
import { parseExact, writeExact } from './exact';
import { missedOf } from './schedules';
import { instantText, wallTime } from './wallclock';
import { splitWords } from './words';

export const TARGET_KINDS = ['command', 'http', 'sql', 'task', 'flow', 'graph'] as const;
export type TargetKind = (typeof TARGET_KINDS)[number];

/** What is to be done, by fields. Only those of its kind count. */
export interface TargetDraft {
  kind: TargetKind;
  /** A command line, or with `shell` the script. */
  command: string;
  shell: boolean;
  shellArguments: string;
  cwd: string;
  method: string;
  url: string;
  body: string;
  connection: string;
  /** The function or the statement file. */
  routine: string;
  name: string;
  /** Every other field of the target, as a JSON object. */
  more: string;
}

export interface Draft {
  name: string;
  description: string;
  labels: { key: string; value: string }[];
  plan: Plan;
  timezone: string;
  target: TargetDraft;
  input: string;
  enabled: boolean;
  missed: string;
  missedWindow: string;
  missedLimit: string;
  overlap: string;
  maxConcurrentRuns: string;
  jitter: string;
  attempts: string;
  backoff: string;
  retryBase: string;
  retryMax: string;
  /** What else a retry policy says. */
  retryRest: Record<string, unknown>;
  timeout: string;
  queue: string;
  priority: string;
  serial: boolean;
  calendar: string;
  startsAt: string;
  endsAt: string;
  dstGap: string;
  dstOverlap: string;
  pauseAfterFailures: string;
  /** Every other field, as a JSON object. */
  more: string;
}

/** A schedule as the API takes it: the fields that are said, and no others. */
export type Body = Record<string, unknown>;

/** What cannot be sent, and at which field; in the form in which the API tells it. */
export interface Wrong {
  pointer: string;
  detail: string;
}

export function newDraft(timezone: string): Draft {
  return {
    name: '',
    description: '',
    labels: [],
    plan: newPlan(),
    timezone,
    target: newTarget(),
    input: '{}',
    enabled: true,
    missed: 'once',
    missedWindow: '',
    missedLimit: '',
    overlap: 'allow',
    maxConcurrentRuns: '',
    jitter: '',
    attempts: '',
    backoff: '',
    retryBase: '',
    retryMax: '',
    retryRest: {},
    timeout: '',
    queue: 'default',
    priority: '0',
    serial: false,
    calendar: '',
    startsAt: '',
    endsAt: '',
    dstGap: 'next',
    dstOverlap: 'first',
    pauseAfterFailures: '',
    more: '',
  };
}

function newTarget(): TargetDraft {
  return {
    kind: 'command',
    command: '',
    shell: false,
    shellArguments: '',
    cwd: '',
    method: 'POST',
    url: '',
    body: '',
    connection: '',
    routine: '',
    name: '',
    more: '',
  };
}

const text = (value: unknown) => (value === null || value === undefined ? '' : String(value));

/** The fields of a schedule that exists. */
export function draftOf(schedule: Schedule): Draft {
  const zone = schedule.timezone ?? 'UTC';
  const missed = missedOf(schedule.missed);
  const { max_attempts: attempts, backoff, base, max, ...retryRest } = schedule.retry;
  const wall = (at: string | null | undefined) => (at ? wallTime(Date.parse(at), zone) : '');
  return {
    ...newDraft(zone),
    name: schedule.name,
    description: schedule.description,
    labels: Object.entries(schedule.labels).map(([key, value]) => ({ key, value })),
    plan: planOf(schedule, zone),
    target: targetDraft(schedule.target as unknown as Target),
    input: writeExact(schedule.input, 2),
    enabled: schedule.enabled,
    missed: missed.policy,
    missedWindow: text(missed.window),
    missedLimit: text(missed.limit),
    overlap: schedule.overlap,
    maxConcurrentRuns: text(schedule.max_concurrent_runs),
    jitter: text(schedule.jitter),
    attempts: text(attempts),
    backoff: text(backoff),
    retryBase: text(base),
    retryMax: text(max),
    retryRest,
    timeout: schedule.timeout,
    queue: schedule.queue,
    priority: text(schedule.priority),
    serial: schedule.serial,
    calendar: text(schedule.calendar),
    startsAt: wall(schedule.starts_at),
    endsAt: wall(schedule.ends_at),
    dstGap: schedule.dst_gap ?? 'next',
    dstOverlap: schedule.dst_overlap ?? 'first',
    pauseAfterFailures: text(schedule.pause_after_failures),
    more: moreOf(schedule),
  };
}

function planOf(schedule: Schedule, zone: string): Plan {
  if (schedule.cron) return readCron(schedule.cron);
  if (schedule.every) return { ...newPlan(), kind: 'every', every: schedule.every };
  return { ...newPlan(), kind: 'at', at: schedule.at ? wallTime(Date.parse(schedule.at), zone) : '' };
}

/** What has no field of its own in the editor, when it says something. */
function moreOf(schedule: Schedule): string {
  const more: Body = {};
  if (schedule.depends_on) more.depends_on = schedule.depends_on;
  if (schedule.tags.length > 0) more.tags = schedule.tags;
  if (schedule.burst_allowed) more.burst_allowed = true;
  if (schedule.grant_id) more.grant_id = schedule.grant_id;
  return Object.keys(more).length > 0 ? writeExact(more, 2) : '';
}

function targetDraft(target: Target): TargetDraft {
  const draft = newTarget();
  const { kind, ...fields } = target;
  const rest: Record<string, unknown> = { ...fields };
  const take = (name: string): string => {
    const value = rest[name];
    if (typeof value !== 'string') return '';
    delete rest[name];
    return value;
  };
  draft.kind = kind as TargetKind;
  if (kind === 'command') {
    const argv = (rest.argv as string[] | undefined) ?? [];
    draft.shell = rest.shell === true;
    draft.command = draft.shell ? (argv[0] ?? '') : commandLine(...argv);
    draft.shellArguments = draft.shell ? commandLine(...argv.slice(1)) : '';
    draft.cwd = take('cwd');
    delete rest.argv;
    delete rest.shell;
  } else if (kind === 'http') {
    draft.method = take('method') || 'POST';
    draft.url = take('url');
    draft.body = take('body');
  } else if (kind === 'sql') {
    draft.connection = take('connection');
    draft.routine = take('function') || take('statement');
  } else {
    draft.name = take(kind === 'graph' ? 'id' : 'name');
  }
  draft.more = Object.keys(rest).length > 0 ? writeExact(rest, 2) : '';
  return draft;
}

/** What the API would be sent. What is wrong already here is told by field, so that nothing is sent in vain. */
export function bodyOf(draft: Draft): { body: Body; wrong: Wrong[] } {
  const wrong: Wrong[] = [];
  const body: Body = {
    name: draft.name.trim() || undefined,
    description: draft.description || undefined,
    labels: labelsOf(draft, wrong),
    ...timing(draft, wrong),
    target: targetBody(draft.target, wrong),
    input: json(draft.input, '/input', wrong),
    ...policyFields(draft, wrong),
    ...object(draft.more, '/more', wrong),
  };
  if (!body.name) wrong.push({ pointer: '/name', detail: 'give it a name' });
  if (body.input !== undefined && writeExact(body.input) === '{}') delete body.input;
  return { body: said(body), wrong };
}

function said(body: Body): Body {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

function labelsOf(draft: Draft, wrong: Wrong[]): Record<string, string> | undefined {
  const pairs = draft.labels.filter(({ key, value }) => key.trim() !== '' || value !== '');
  if (pairs.some(({ key }) => key.trim() === '')) wrong.push({ pointer: '/labels', detail: 'a label needs a name' });
  return pairs.length > 0 ? Object.fromEntries(pairs.map(({ key, value }) => [key.trim(), value])) : undefined;
}

function timing(draft: Draft, wrong: Wrong[]): Body {
  const { plan } = draft;
  if (plan.kind === 'every') return { every: plan.every.trim() };
  if (plan.kind === 'at') {
    const at = instantText(plan.at, draft.timezone);
    if (!at) wrong.push({ pointer: '/at', detail: 'choose a date and a time' });
    return { at: at ?? undefined };
  }
  const lacks = lacking(plan);
  if (lacks === 'days') wrong.push({ pointer: '/cron', detail: 'choose at least one day of the week' });
  if (lacks === 'time') wrong.push({ pointer: '/time', detail: 'choose a time of day' });
  return {
    cron: writeCron(plan),
    timezone: draft.timezone.trim() || 'UTC',
    dst_gap: draft.dstGap === 'next' ? undefined : draft.dstGap,
    dst_overlap: draft.dstOverlap === 'first' ? undefined : draft.dstOverlap,
  };
}

function json(given: string, pointer: string, wrong: Wrong[]): unknown {
  if (given.trim() === '') return undefined;
  try {
    return parseExact(given);
  } catch (error) {
    wrong.push({ pointer, detail: `this is no JSON: ${error instanceof Error ? error.message : ''}` });
    return undefined;
  }
}

function object(given: string, pointer: string, wrong: Wrong[]): Record<string, unknown> {
  const value = json(given, pointer, wrong);
  if (value === undefined) return {};
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>;
  wrong.push({ pointer, detail: 'write a JSON object, such as {"tags": ["db"]}' });
  return {};
}

function words(line: string, wrong: Wrong[]): string[] {
  const { words: found, problem } = splitWords(line);
  if (problem) wrong.push({ pointer: '/target/argv', detail: problem });
  return found;
}

function targetBody(target: TargetDraft, wrong: Wrong[]): Body {
  const more = object(target.more, '/target/more', wrong);
  const needed = (value: string, field: string, what: string): string => {
    if (value.trim() === '') wrong.push({ pointer: `/target/${field}`, detail: what });
    return value.trim();
  };
  const { kind } = target;
  switch (kind) {
    case 'command': {
      const command = needed(target.command, 'argv', 'say what is to be run');
      const argv = target.shell ? [command, ...words(target.shellArguments, wrong)] : words(command, wrong);
      return said({ kind, argv, shell: target.shell || undefined, cwd: target.cwd.trim() || undefined, ...more });
    }
    case 'http': {
      const url = needed(target.url, 'url', 'give the address to call');
      return said({ kind, method: target.method, url, body: target.body || undefined, ...more });
    }
    case 'sql': {
      const connection = needed(target.connection, 'connection', 'name the connection');
      const routine = needed(target.routine, 'function', 'name a function, or a .sql file');
      return { kind, connection, [routine.endsWith('.sql') ? 'statement' : 'function']: routine, ...more };
    }
    case 'graph':
      return { kind, id: needed(target.name, 'id', 'name the graph'), ...more };
    default:
      return { kind, name: needed(target.name, 'name', `name the ${kind}`), ...more };
  }
}

function whole(given: string, pointer: string, wrong: Wrong[]): number | undefined {
  if (given.trim() === '') return undefined;
  if (/^-?\d{1,9}$/.test(given.trim())) return Number(given);
  wrong.push({ pointer, detail: 'write a whole number' });
  return undefined;
}

function policyFields(draft: Draft, wrong: Wrong[]): Body {
  const missed = said({
    policy: draft.missed,
    window: draft.missedWindow.trim() || undefined,
    limit: draft.missed === 'all' ? whole(draft.missedLimit, '/missed', wrong) : undefined,
  });
  const retry = said({
    ...draft.retryRest,
    max_attempts: whole(draft.attempts, '/retry', wrong),
    backoff: draft.backoff || undefined,
    base: draft.retryBase.trim() || undefined,
    max: draft.retryMax.trim() || undefined,
  });
  const instant = (wall: string, pointer: string) => {
    const at = instantText(wall, draft.timezone);
    // What was typed and cannot be read is not left out: the schedule would have no such end.
    if (wall && !at) wrong.push({ pointer, detail: 'choose a date and a time' });
    return at ?? undefined;
  };
  return {
    missed: Object.keys(missed).length > 1 ? missed : draft.missed === 'once' ? undefined : draft.missed,
    overlap: draft.overlap === 'allow' ? undefined : draft.overlap,
    max_concurrent_runs: whole(draft.maxConcurrentRuns, '/max_concurrent_runs', wrong),
    jitter: draft.jitter.trim() || undefined,
    retry: Object.keys(retry).length > 0 ? retry : undefined,
    timeout: draft.timeout.trim() || undefined,
    queue: draft.queue.trim() === 'default' ? undefined : draft.queue.trim() || undefined,
    priority: whole(draft.priority, '/priority', wrong) || undefined,
    serial: draft.serial || undefined,
    calendar: draft.calendar.trim() || undefined,
    starts_at: instant(draft.startsAt, '/starts_at'),
    ends_at: instant(draft.endsAt, '/ends_at'),
    pause_after_failures: whole(draft.pauseAfterFailures, '/pause_after_failures', wrong),
    enabled: draft.enabled ? undefined : false,
  };
}

/** What changed from one body to another: `null` takes a field away, as PATCH reads it. */
export function patchOf(was: Body, is: Body): Body {
  const patch: Body = {};
  for (const name of new Set([...Object.keys(was), ...Object.keys(is)])) {
    if (writeExact(valueOf(was, name)) !== writeExact(valueOf(is, name))) patch[name] = valueOf(is, name);
  }
  return patch;
}

/** A field as PATCH has to say it. An input can be `null`, so that none is said as what it is: an empty one. */
function valueOf(body: Body, name: string): unknown {
  const value = body[name];
  if (value !== undefined) return value;
  return name === 'input' ? {} : null;
}

/** What was typed, on top of what somebody else has saved meanwhile: the fields that were not touched are theirs. */
export function rebased(mine: Draft, base: Draft, theirs: Draft): Draft {
  const isTouched = (name: keyof Draft) => writeExact(mine[name]) !== writeExact(base[name]);
  const touched = (Object.keys(mine) as (keyof Draft)[]).filter(isTouched).map((name) => [name, mine[name]]);
  return { ...theirs, ...(Object.fromEntries(touched) as Partial<Draft>) };
}
