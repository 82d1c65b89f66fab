// What a job is and does, in a few words.
import type { ErrorCode, Job, JobState, Target } from '../api/types';
import { writeExact } from './exact';

export const STATES: readonly JobState[] = [
  'running',
  'queued',
  'scheduled',
  'waiting',
  'completed',
  'failed',
  'skipped',
  'cancelled',
];

/** The job type of a target, such as `command`, `task:mail` or `sql:reports`. */
export function targetType(given: object): string {
  const target = given as Target;
  const named = target.kind === 'task' ? target.name : target.kind === 'sql' ? target.connection : null;
  return typeof named === 'string' ? `${target.kind}:${named}` : target.kind;
}

/** A target in one line: the command, the address, the name. */
export function targetLine(given: object): string {
  const target = given as Target;
  const text = (name: string) => (typeof target[name] === 'string' ? (target[name] as string) : '');
  switch (target.kind) {
    case 'command':
      return Array.isArray(target.argv) ? target.argv.map(String).join(' ') : text('shell');
    case 'http':
      return `${text('method') || 'POST'} ${text('url')}`;
    case 'sql':
      return `${text('connection')} ${text('function') || text('statement')}`.trim();
    case 'graph':
      return text('id');
    default:
      return text('name') || target.kind;
  }
}

/** The input in one short line; nothing when there is none. */
export function inputLine(input: unknown, most = 80): string {
  if (input === null || input === undefined) return '';
  const text = writeExact(input);
  if (text === '{}' || text === 'null') return '';
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Whether the job has not ended. */
export function isAlive(state: JobState): boolean {
  return ['waiting', 'scheduled', 'queued', 'running'].includes(state);
}

/** Whether an event may be about a chain of attempts, latest first: about one of them, or about the one that follows. */
export function mayBeAttempt(data: Record<string, unknown>, attempts: readonly Job[]): boolean {
  if (attempts.some(({ id }) => id === data.id)) return true;
  const [latest] = attempts;
  return latest !== undefined && data.attempt === latest.attempt + 1 && data.queue === latest.queue;
}

/** How long the run took or takes, in milliseconds. */
export function runLength(job: Job, now: number): number | null {
  if (!job.run?.started_at) return null;
  const end = job.run.finished_at ? Date.parse(job.run.finished_at) : now;
  return Math.max(0, end - Date.parse(job.run.started_at));
}

/** How long the job waited from when it could begin until it did, in milliseconds. */
export function waitLength(job: Job, now: number): number | null {
  if (job.state === 'scheduled' || job.state === 'waiting') return null;
  const could = Date.parse(job.queued_at ?? job.created_at);
  const begun = job.run?.started_at ? Date.parse(job.run.started_at) : null;
  if (begun === null && !isAlive(job.state)) return null;
  return Math.max(0, (begun ?? now) - could);
}

const ERRORS: Record<ErrorCode, string> = {
  grant_missing: 'it has no grant',
  grant_revoked: 'its grant was revoked',
  grant_expired: 'its grant has expired',
  scope_denied: 'its grant does not allow it',
  no_executor: 'no node runs such work',
  target_rejected: 'the target was refused before it ran',
  target_error: 'the work itself failed',
  bad_output: 'what it gave back could not be read',
  output_too_large: 'what it gave back was too large',
  timeout: 'it took longer than it may',
  node_lost: 'its node was lost',
  interrupted: 'its node was stopped',
  cancelled: 'somebody cancelled it',
  replaced: 'another job took its place',
  dependency_failed: 'what it depends on failed',
  internal: 'an internal error',
};

/** An error code in words. */
export function errorInWords(code: ErrorCode | null | undefined): string {
  return code ? ERRORS[code] : '';
}

/** All error codes that there are. */
export function errorCodes(): string[] {
  return Object.keys(ERRORS);
}
