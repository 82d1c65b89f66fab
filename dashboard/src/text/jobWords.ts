// What holds for jobs, limits and queues, in a sentence each.
import type { Job, Limit } from '../api/types';

/** What a limit allows. */
export function limitInWords(limit: Limit): string {
  const parts: string[] = [];
  if (typeof limit.concurrency === 'number') parts.push(`${limit.concurrency} at once`);
  if (typeof limit.node_concurrency === 'number') parts.push(`${limit.node_concurrency} at once on each node`);
  if (limit.rate) {
    const burst = typeof limit.rate.burst === 'number' ? `, ${limit.rate.burst} after a quiet time` : '';
    parts.push(`${limit.rate.jobs} starts in ${limit.rate.per}${burst}`);
  }
  return parts.join('; ');
}

/** What a limit counts: `queue:mail` as `the queue mail`. */
export function subjectInWords(subject: string): string {
  const colon = subject.indexOf(':');
  if (colon < 0) return 'all jobs';
  const kinds: Record<string, string> = { queue: 'the queue', type: 'jobs of type', tag: 'jobs tagged' };
  return `${kinds[subject.slice(0, colon)] ?? subject.slice(0, colon)} ${subject.slice(colon + 1)}`;
}

/** A rate such as `10/1m`, read; `null` when it is none. */
export function readRate(text: string): { jobs: number; per: string } | null {
  const found = /^\s*(\d+)\s*\/\s*(\S+)\s*$/.exec(text);
  return found ? { jobs: Number(found[1]), per: found[2] ?? '' } : null;
}

export interface TimelinePoint {
  name: string;
  at: string;
  /** How long until the next point, in milliseconds. */
  length: number | null;
  /** What the job did in that time. */
  doing: string;
  /** Whether it has not come yet. */
  isAhead: boolean;
}

/** The life of a job: when it was made, could begin, began and ended. */
export function timeline(job: Job, now: number): TimelinePoint[] {
  const points: [string, string | null | undefined, string][] = [
    ['Created', job.created_at, 'waited'],
    // A job that was due when it was made has no time of its own to wait for.
    ['Due', job.run_at && Date.parse(job.run_at) > Date.parse(job.created_at) ? job.run_at : null, 'queued'],
    ['Started', job.run?.started_at, 'ran'],
    [ending(job), job.run?.finished_at, ''],
  ];
  const known = points.filter((point): point is [string, string, string] => Boolean(point[1]));
  return known.map(([name, at, doing], index) => {
    const next = known[index + 1];
    const isLast = next === undefined;
    const end = next ? Date.parse(next[1]) : isOver(job) ? null : now;
    const isAhead = Date.parse(at) > now;
    return {
      name,
      at,
      doing,
      isAhead,
      length: end === null || (isLast && isAhead) ? null : Math.max(0, end - Date.parse(at)),
    };
  });
}

function ending(job: Job): string {
  return job.run?.outcome ? (job.run.outcome[0] ?? '').toUpperCase() + job.run.outcome.slice(1) : 'Ended';
}

function isOver(job: Job): boolean {
  return Boolean(job.run?.finished_at);
}

/** A count that is exact up to its bound. */
export function countText(count: { count: number; more: boolean }): string {
  return count.count.toLocaleString('en-GB') + (count.more ? '+' : '');
}

export function jobsText(count: number): string {
  return count === 1 ? '1 job' : `${count.toLocaleString('en-GB')} jobs`;
}

/** Since when the oldest waits, as a warning: none below five minutes, loud above an hour. */
export function ageTone(ms: number): '' | 'warn' | 'bad' {
  return ms > 3_600_000 ? 'bad' : ms > 300_000 ? 'warn' : '';
}

/** Bytes for people. */
export function bytes(count: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB'];
  let size = count;
  let unit = 0;
  while (size >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return unit === 0 ? `${count} bytes` : `${size.toFixed(1)} ${units[unit]}`;
}
