// The first line of the overview: is all well, and if not, what is wrong, where to look.
import type { Alert, Schedule, Node, Queue, RecentRun, Stats } from '../api/types';
import { length } from './time';

export interface Watched {
  now: number;
  stats: Stats | null;
  failing: Schedule[];
  /** Those that are due next, soonest first. */
  next: Schedule[];
  /** Those that cannot fire. */
  stuck: Schedule[];
  queues: Queue[];
  alerts: Alert[];
  nodes: Node[];
}

export interface VerdictPart {
  text: string;
  href: string;
  isBad: boolean;
}

export interface Verdict {
  isWell: boolean;
  parts: VerdictPart[];
}

/** So late is a slot that nobody is about to decide on. */
const OVERDUE_MS = 60_000;
/** A node that was lost longer ago is history. */
const LOST_MS = 24 * 3_600_000;

/** `1 schedule`, `3 schedules`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? one : many}`;
}

/** What an error says, apart from numbers, ids and what is quoted: two jobs with the same cause have it in common. */
export function errorShape(error: string): string {
  return (error.split('\n', 1)[0] ?? '')
    .replace(/(["'`])(?:(?!\1).)*\1/g, '…')
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '#')
    .replace(/\d+/g, '#')
    .replace(/\s+/g, ' ')
    .trim()
    .toLowerCase();
}

/** The last failure of a schedule, when its recent runs are known. */
export function lastFailure(schedule: Schedule): RecentRun | null {
  return schedule.recent?.find((run) => run.outcome === 'failed') ?? null;
}

/** When the failures in a row began, as far back as is known. */
export function failingSince(schedule: Schedule): string | null {
  let since: string | null = null;
  for (const run of schedule.recent ?? []) {
    if (run.outcome === 'completed') break;
    if (run.outcome === 'failed') since = run.finished_at;
  }
  return since;
}

/** How many of the failing share the most common error; 0 when none do. */
export function sharedFailures(failing: Schedule[]): number {
  const shapes = new Map<string, number>();
  for (const schedule of failing) {
    const failure = lastFailure(schedule);
    if (!failure) continue;
    const shape = `${failure.error_code ?? ''} ${errorShape(failure.error ?? '')}`;
    shapes.set(shape, (shapes.get(shape) ?? 0) + 1);
  }
  const most = Math.max(0, ...shapes.values());
  return most > 1 ? most : 0;
}

/** Whether the schedule should have been decided on a while ago. */
export function isOverdue(schedule: Schedule, now: number): boolean {
  return schedule.enabled && !!schedule.next_run_at && Date.parse(schedule.next_run_at) < now - OVERDUE_MS;
}

/** Those that were lost lately and have not come back under their name. */
export function lostLately(nodes: Node[], now: number): Node[] {
  const alive = new Set(nodes.filter((node) => node.alive).map((node) => node.name));
  const lost = nodes.filter((node) => node.lost_at && Date.parse(node.lost_at) > now - LOST_MS);
  return lost.filter((node) => !alive.has(node.name));
}

/** Nothing else matters as much: while the store is frozen, nothing starts, or nothing can be changed. */
function frozenPart({ stats }: Watched): VerdictPart[] {
  return stats?.frozen ? [{ text: `the store is frozen: ${stats.frozen.why}`, href: 'nodes', isBad: true }] : [];
}

export function verdict(watched: Watched): Verdict {
  const parts = [
    ...frozenPart(watched),
    ...failingPart(watched),
    ...overduePart(watched),
    ...stuckPart(watched),
    ...pausedParts(watched),
    ...alertPart(watched),
    ...nodeParts(watched),
  ];
  return { isWell: parts.length === 0, parts: parts.length === 0 ? [wellPart(watched)] : parts };
}

function failingPart({ failing, stats }: Watched): VerdictPart[] {
  const count = Math.max(failing.length, stats?.schedules.failing ?? 0);
  if (count === 0) return [];
  const shared = sharedFailures(failing);
  const all = shared === count ? 'all with' : `${shared} share`;
  const more = shared > 0 ? `, ${all} the same error` : '';
  return [{ text: `${counted(count, 'schedule')} failing${more}`, href: 'schedules?show=failing', isBad: true }];
}

function overduePart({ next, now }: Watched): VerdictPart[] {
  const overdue = next.filter((schedule) => isOverdue(schedule, now));
  const [first] = overdue;
  if (!first) return [];
  const late = length(now - Date.parse(first.next_run_at ?? ''));
  return [{ text: `${overdue.length} overdue, by up to ${late}`, href: 'schedules?order=next_run', isBad: true }];
}

function stuckPart({ stuck, stats }: Watched): VerdictPart[] {
  const count = Math.max(stuck.length, stats?.schedules.with_problem ?? 0);
  if (count === 0) return [];
  const [first] = stuck;
  const href = count === 1 && first ? `schedules/${encodeURIComponent(first.id)}` : 'schedules';
  return [{ text: `${counted(count, 'schedule')} cannot fire`, href, isBad: true }];
}

function pausedParts({ queues }: Watched): VerdictPart[] {
  const paused = queues.filter((queue) => queue.paused && queue.depth.count > 0);
  const [first] = paused;
  if (!first) return [];
  if (paused.length > 1) {
    const waiting = paused.reduce((sum, queue) => sum + queue.depth.count, 0);
    return [{ text: `${paused.length} queues paused with ${waiting} waiting`, href: 'queues', isBad: false }];
  }
  const waiting = `${first.depth.count}${first.depth.more ? '+' : ''}`;
  const href = `queues/${encodeURIComponent(first.name)}`;
  return [{ text: `queue ${first.name} paused with ${waiting} waiting`, href, isBad: false }];
}

function alertPart({ alerts }: Watched): VerdictPart[] {
  if (alerts.length === 0) return [];
  const unheard = alerts.filter((alert) => !alert.acknowledged).length;
  const more = unheard === 0 ? ', acknowledged' : '';
  return [{ text: `${counted(alerts.length, 'open alert')}${more}`, href: 'notifications', isBad: unheard > 0 }];
}

function nodeParts({ nodes, now, stats }: Watched): VerdictPart[] {
  const parts: VerdictPart[] = [];
  if (stats && stats.nodes === 0) parts.push({ text: 'no node is alive: nothing runs', href: 'nodes', isBad: true });
  const lost = lostLately(nodes, now).length;
  if (lost > 0) parts.push({ text: `${counted(lost, 'node')} lost`, href: 'nodes?all=true', isBad: true });
  return parts;
}

function wellPart({ stats, now, next }: Watched): VerdictPart {
  const schedules = stats?.schedules.total;
  const count = schedules ? `${counted(schedules.count, 'schedule')}${schedules.more ? ' and more' : ''}` : '';
  const first = next.find((schedule) => schedule.next_run_at);
  const due = first?.next_run_at ? Math.max(0, Date.parse(first.next_run_at) - now) : null;
  const soon = due === null ? '' : `, the next is due ${due < 1_000 ? 'now' : `in ${length(due).replace('.0s', 's')}`}`;
  return { text: `${count || 'nothing fails'}${soon}`, href: 'schedules', isBad: false };
}
