// Rules as fields of a form, as what the API takes, in words, and as the command that makes one.
import type { Rule } from '../api/types';
import { commandOn, flag } from './commands';

export type Trigger = Rule['on'];
export type Weekday = NonNullable<NonNullable<Rule['quiet']>['days']>[number];

export const TRIGGERS: Record<Trigger, string> = {
  failure: 'a job failed, and no retry follows',
  failures_in_a_row: 'a schedule failed several times in a row',
  recovery: 'a schedule succeeded again',
  late_start: 'a job of a schedule starts too late',
  missed_slots: 'slots passed without a run',
  long_run: 'a run takes too long',
  no_executor: 'jobs wait that no node can run',
  queue_too_old: 'the oldest job of a queue waits too long',
  overdue: 'a schedule was due, and nobody decided on it',
  node_lost: 'a node was lost',
  clock_jumped: 'the database’s clock jumped',
  all_well: 'nothing is overdue: a dead-man’s switch',
};

/** How long it must last, for those that last, unless said otherwise. */
export const LASTS: Partial<Record<Trigger, string>> = {
  late_start: '1m',
  long_run: '1h',
  no_executor: '1m',
  queue_too_old: '10m',
  overdue: '1m',
};

export const WEEKDAYS: Weekday[] = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];

export interface StepFields {
  channels: string[];
  after: string;
  failures: string;
}

export interface RuleFields {
  name: string;
  description: string;
  on: Trigger;
  after: string;
  failures: string;
  every: string;
  scope: 'everywhere' | 'schedule' | 'label' | 'queue';
  within: string;
  steps: StepFields[];
  wait: string;
  groupBy: string;
  repeatEvery: string;
  tellRecovery: 'usual' | 'yes' | 'no';
  isQuiet: boolean;
  quietFrom: string;
  quietUntil: string;
  quietZone: string;
  quietDays: Weekday[];
}

export const NO_STEP: StepFields = { channels: [], after: '', failures: '' };

export const NO_RULE: RuleFields = {
  ...{ name: '', description: '', on: 'failure', after: '', failures: '3', every: '1m' },
  ...{ scope: 'everywhere', within: '', steps: [NO_STEP], wait: '', groupBy: 'cause', repeatEvery: '' },
  ...{
    tellRecovery: 'usual',
    isQuiet: false,
    quietFrom: '22:00',
    quietUntil: '07:00',
    quietZone: 'UTC',
    quietDays: [],
  },
};

function orNull(text: string): string | null {
  return text.trim() === '' ? null : text.trim();
}

/** What the API takes; `null` takes a field away when a rule is changed. */
export function ruleBody(fields: RuleFields): Record<string, unknown> {
  const number = (text: string) => (text.trim() === '' ? null : Number(text));
  const recovery = { usual: null, yes: true, no: false };
  const steps = fields.steps.map(({ channels, after, failures }, at) => {
    if (at === 0) return { channels };
    return { channels, after: orNull(after), failures: number(failures) };
  });
  const { quietFrom: from, quietUntil: until, quietZone: timezone, quietDays: days } = fields;
  return {
    name: fields.name,
    description: fields.description,
    on: fields.on,
    after: LASTS[fields.on] ? orNull(fields.after) : null,
    failures: fields.on === 'failures_in_a_row' ? number(fields.failures) : null,
    every: fields.on === 'all_well' ? orNull(fields.every) : null,
    scope: fields.scope === 'everywhere' ? null : { [fields.scope]: fields.within.trim() },
    steps,
    wait: orNull(fields.wait),
    group_by: fields.groupBy,
    repeat_every: orNull(fields.repeatEvery),
    quiet: fields.isQuiet ? { from, until, timezone, ...(days.length > 0 ? { days } : {}) } : null,
    tell_recovery: recovery[fields.tellRecovery],
  };
}

/** A new rule has no fields to take away. */
export function newRuleBody(fields: RuleFields): Record<string, unknown> {
  return Object.fromEntries(Object.entries(ruleBody(fields)).filter(([, value]) => value !== null));
}

/** The fields of a rule that is there. */
export function fieldsOfRule(rule: Rule): RuleFields {
  const { schedule, label, queue } = rule.scope ?? {};
  const scope = schedule ? 'schedule' : label ? 'label' : queue ? 'queue' : 'everywhere';
  const steps = rule.steps.map(({ channels, after, failures }) => ({
    channels: [...channels],
    after: after ?? '',
    failures: failures ? String(failures) : '',
  }));
  return {
    ...NO_RULE,
    ...{ name: rule.name, description: rule.description ?? '', on: rule.on, after: rule.after ?? '' },
    ...{ failures: String(rule.failures ?? NO_RULE.failures), every: rule.every ?? NO_RULE.every, scope, steps },
    ...{ within: schedule ?? label ?? queue ?? '', wait: rule.wait ?? '', groupBy: rule.group_by ?? 'cause' },
    repeatEvery: rule.repeat_every ?? '',
    tellRecovery: rule.tell_recovery === true ? 'yes' : rule.tell_recovery === false ? 'no' : 'usual',
    isQuiet: !!rule.quiet,
    quietFrom: rule.quiet?.from ?? NO_RULE.quietFrom,
    quietUntil: rule.quiet?.until ?? NO_RULE.quietUntil,
    quietZone: rule.quiet?.timezone ?? 'UTC',
    quietDays: [...(rule.quiet?.days ?? [])],
  };
}

/** When, in words: `a run takes too long (over 2h)`. */
export function triggerInWords(rule: Rule): string {
  const words = TRIGGERS[rule.on];
  if (rule.on === 'failures_in_a_row') return `a schedule failed ${rule.failures ?? ''} times in a row`;
  if (rule.on === 'all_well') return `${words}, told every ${rule.every ?? ''}`;
  const lasts = rule.after ?? LASTS[rule.on];
  return lasts ? `${words} (${lasts})` : words;
}

/** Where it looks, in words. */
export function scopeInWords(rule: Rule): string {
  const { schedule, label, queue } = rule.scope ?? {};
  if (schedule) return `schedule ${schedule}`;
  if (label) return `label ${label}`;
  return queue ? `queue ${queue}` : 'everywhere';
}

/** Who is told, in words: `ops, then oncall after 15m`. */
export function stepsInWords(rule: Rule): string {
  const said = rule.steps.map(({ channels, after, failures }, at) => {
    if (at === 0) return channels.join(' and ');
    const times = failures ? `at ${failures} times` : '';
    return `then ${channels.join(' and ')} ${[after ? `after ${after}` : '', times].filter(Boolean).join(' or ')}`;
  });
  return said.join(', ').trim();
}

export function quietInWords(rule: Rule): string {
  if (!rule.quiet) return 'never';
  const { from, until, timezone, days } = rule.quiet;
  const on = days && days.length > 0 ? ` from ${days.join(', ')}` : '';
  return `${from}–${until} ${timezone ?? 'UTC'}${on}`;
}

/** The command that makes it, or changes it. */
export function ruleCommand(fields: RuleFields, isNew: boolean): string {
  const words = ['--on', fields.on];
  const add = (name: string, value: string) => {
    if (value.trim()) words.push(...flag(name, value.trim()));
  };
  if (LASTS[fields.on]) add('--after', fields.after);
  if (fields.on === 'failures_in_a_row') add('--failures', fields.failures);
  if (fields.on === 'all_well') add('--every', fields.every);
  if (fields.scope !== 'everywhere') add(`--${fields.scope}`, fields.within);
  else if (!isNew) words.push('--everywhere');
  for (const channel of fields.steps[0]?.channels ?? []) add('--channel', channel);
  for (const step of fields.steps.slice(1)) {
    add('--then', `${step.channels.join(',')}:${step.after.trim() || `${step.failures.trim()}x`}`);
  }
  add('--wait', fields.wait);
  if (fields.groupBy !== 'cause' || !isNew) add('--group-by', fields.groupBy);
  add('--repeat-every', fields.repeatEvery);
  if (fields.isQuiet) {
    words.push(...flag('--quiet', `${fields.quietFrom}-${fields.quietUntil}`), ...flag('--tz', fields.quietZone));
    for (const day of fields.quietDays) words.push('--quiet-day', day);
  } else if (!isNew) words.push('--no-quiet');
  if (fields.tellRecovery !== 'usual') words.push('--tell-recovery', String(fields.tellRecovery === 'yes'));
  add('--description', fields.description);
  return commandOn(isNew ? 'rule add' : 'rule edit', [fields.name || 'NAME'], words);
}
