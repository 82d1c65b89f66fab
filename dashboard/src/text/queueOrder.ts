// Moving a job within its queue: where it may go, and what to ask of the server for it.

export interface Placed {
  job_id: string;
  priority: number;
}

/** The list with one row at another place. */
export function moved<T>(rows: readonly T[], from: number, to: number): T[] {
  const others = rows.filter((_, at) => at !== from);
  const row = rows[from];
  return row === undefined ? [...rows] : [...others.slice(0, to), row, ...others.slice(to)];
}

/** What to ask for so that the row `from` comes to stand at `to`; `null` when it stands there. */
export function moveTo(
  rows: readonly Placed[],
  from: number,
  to: number,
): { before: string } | { after: string } | null {
  if (from === to || !rows[from] || !rows[to]) return null;
  const target = rows[to];
  return to < from ? { before: target.job_id } : { after: target.job_id };
}

/** The place a dragged row would take: the row whose middle the pointer has passed. */
export function placeUnder(middles: readonly number[], from: number, y: number): number {
  let to = from;
  middles.forEach((middle, at) => {
    if (at < from && y < middle) to = Math.min(to, at);
    if (at > from && y > middle) to = Math.max(to, at);
  });
  return to;
}
