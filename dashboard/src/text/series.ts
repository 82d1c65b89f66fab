// The overview's chart as numbers: bars, axes and labels, drawn by others.
import type { SeriesBucket } from '../api/types';
import { date, timeOfDay, weekday } from './time';

export const WINDOWS = ['1h', '24h', '7d'] as const;
export type Window = (typeof WINDOWS)[number];

/** From the baseline up: failures stand on it, so that they can be compared. */
export const PARTS = ['failed', 'cancelled', 'skipped', 'completed'] as const;
export type Part = (typeof PARTS)[number];

export function total(bucket: SeriesBucket): number {
  return PARTS.reduce((sum, part) => sum + bucket[part], 0);
}

/** A round number at or above, for the end of an axis; it is even, so that its half is a number of runs, too. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 2;
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 4, 6, 8, 10].find((times) => times * power >= value) ?? 10;
  return Math.max(2, factor * power);
}

/** Where each part of a bar begins and ends, as shares of the axis. */
export function stack(bucket: SeriesBucket, most: number): { part: Part; from: number; to: number }[] {
  let from = 0;
  const parts = [];
  for (const part of PARTS) {
    if (bucket[part] === 0) continue;
    const to = from + bucket[part] / most;
    parts.push({ part, from, to });
    from = to;
  }
  return parts;
}

/** The stretches of buckets in which a line has values: it is broken where nothing ran. */
export function stretches(values: (number | null | undefined)[]): { at: number; value: number }[][] {
  const found: { at: number; value: number }[][] = [];
  let current: { at: number; value: number }[] | null = null;
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      current = null;
    } else {
      if (!current) found.push((current = []));
      current.push({ at, value });
    }
  });
  return found;
}

/** The label of a bucket on the time axis. */
export function tick(at: number, window: Window, zone: string): string {
  return window === '7d' ? `${weekday(at, zone)} ${date(at, zone).slice(8)}` : timeOfDay(at, zone);
}

/** Which buckets are labelled: about so many, evenly. */
export function labelled(count: number, about: number): number[] {
  const every = Math.max(1, Math.ceil(count / Math.max(1, about)));
  return Array.from({ length: Math.ceil(count / every) }, (_, at) => at * every);
}

/** The buckets that the time axis names, at most about so many: in the long window those in which a day begins. */
export function named(times: number[], window: Window, zone: string, about: number): number[] {
  const isNewDay = (nth: number) => nth > 0 && date(times[nth] ?? 0, zone) !== date(times[nth - 1] ?? 0, zone);
  const all = times.map((_, nth) => nth).filter((nth) => window !== '7d' || isNewDay(nth));
  return labelled(all.length, about).map((nth) => all[nth] ?? 0);
}
