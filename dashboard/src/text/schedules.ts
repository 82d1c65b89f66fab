// What a schedule is, does and decided, in a few words.
import type { Schedule, Slot } from '../api/types';
import type { LiveEvent } from '../app/live.svelte';

/** When it fires as it is written: the expression, the interval or the instant. */
export function timingOf(schedule: Schedule): string {
  return schedule.cron ?? (schedule.every ? `every ${schedule.every}` : `at ${schedule.at ?? ''}`);
}

/** What it means, without the zone, which has its own place. */
export function inWords(schedule: Schedule): string {
  const zone = `, ${schedule.timezone ?? ''}`;
  return schedule.timezone && schedule.in_words.endsWith(zone)
    ? schedule.in_words.slice(0, -zone.length)
    : schedule.in_words;
}

/** Whether something that happened concerns a schedule, or any of them. */
export function concerns(event: LiveEvent, id?: string): boolean {
  const { schedule_id: ofJob, subject } = event.data;
  // A manifest changes many at once, and does not say which.
  if (event.data.topic === 'schedules' && String(subject ?? '').startsWith('manifest:')) return true;
  if (id === undefined) return Boolean(ofJob) || String(subject ?? '').startsWith('schedule:');
  return ofJob === id || subject === `schedule:${id}`;
}

const REASONS: Record<Slot['reason'], string> = {
  on_time: 'on time',
  catchup: 'late, to make up for slots that passed',
  backfill: 'asked for by a backfill',
  overlap: 'an earlier run was still alive',
  max_concurrent_runs: 'as many runs were alive as may be',
  dependency: 'what it depends on had not succeeded',
  calendar: 'its calendar was closed',
  paused: 'it was paused',
  rescheduled: 'somebody moved or skipped it',
  too_late: 'nobody could fire it in time',
  superseded: 'a later slot stood for it',
  over_limit: 'more had passed than are made up for',
  edited: 'it was edited, and this is none of its slots any more',
};

export function reasonInWords(reason: Slot['reason']): string {
  return REASONS[reason] ?? reason;
}

type MissedPolicy = Exclude<Schedule['missed'], string>;

export function missedOf(missed: Schedule['missed']): MissedPolicy {
  return typeof missed === 'string' ? { policy: missed } : missed;
}

function missedInWords(schedule: Schedule): string {
  const { policy, window, limit } = missedOf(schedule.missed);
  const within = window ? ` that is at most ${window} late` : '';
  if (policy === 'skip') return `a slot more than ${window ?? '60s'} late is skipped`;
  if (policy === 'once') return `the latest slot${within} is run, the earlier ones are recorded`;
  return `every slot${within} is run${limit ? `, at most ${limit}` : ''}`;
}

const OVERLAP: Record<Schedule['overlap'], string> = {
  allow: 'runs may overlap',
  forbid: 'a slot is skipped while an earlier run is alive',
  replace: 'the earlier run is cancelled, the new one begins',
  queue_one: 'one run waits for the earlier one, further slots are skipped',
};

/** How a job is tried again. */
export function retryInWords(retry: Schedule['retry']): string {
  const { max_attempts: most, backoff, base, max, max_age: age } = retry;
  if (most === 1) return 'not tried again';
  const wait = backoff === 'fixed' ? `${base} apart` : `after ${base}, then longer each time up to ${max}`;
  return `up to ${most ?? 'some'} attempts, ${wait}${age ? `, within ${age} of the first` : ''}`;
}

function clockChanges(schedule: Schedule): string {
  const gap =
    schedule.dst_gap === 'skip' ? 'a time that is left out is skipped' : 'a time that is left out fires after it';
  const twice = { both: 'both times', second: 'the second time' }[schedule.dst_overlap ?? ''] ?? 'the first time';
  return `${gap}; one that comes twice fires ${twice}`;
}

/** Every policy of a schedule: its name, and what it means here. */
export function policies(schedule: Schedule): [name: string, words: string][] {
  const failures = schedule.pause_after_failures;
  const list: [string, string | null | false | undefined][] = [
    ['Missed slots', missedInWords(schedule)],
    ['Overlap', OVERLAP[schedule.overlap]],
    ['At once', schedule.max_concurrent_runs ? `at most ${schedule.max_concurrent_runs} runs` : null],
    ['One by one', schedule.serial && 'its jobs run one at a time, in order'],
    ['Retries', retryInWords(schedule.retry)],
    ['Timeout', schedule.timeout === 'none' ? 'a run may take any time' : `a run is ended after ${schedule.timeout}`],
    ['Jitter', schedule.jitter ? `each slot is due up to ${schedule.jitter} later` : null],
    ['Clock changes', schedule.cron ? clockChanges(schedule) : null],
    ['Pauses itself', failures ? `after ${failures} failed runs in a row` : null],
    ['Cap on fires', schedule.burst_allowed && 'fires at once although the cap is reached'],
    ['Priority', schedule.priority === 0 ? null : `${schedule.priority}`],
    ['Tags', schedule.tags.join(', ')],
  ];
  return list.flatMap(([name, words]) => (words ? [[name, words] as [string, string]] : []));
}

/** A share as a percentage that never says 100 % when something failed. */
export function percent(rate: number | null | undefined): string {
  if (rate === null || rate === undefined) return '–';
  // The API writes `1.0`, which is kept as it was written.
  const share = Number(rate);
  return share === 1 ? '100 %' : `${(Math.min(share, 0.999) * 100).toFixed(1)} %`;
}
