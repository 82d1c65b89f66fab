// Times as people type them into a form, on the wall clock of a zone, and the instants that they mean.
import { dateTime, knownZone } from './time';

/** `2026-11-16T09:46`, as a field of a form has it. */
export function wallTime(at: number, zone: string): string {
  return dateTime(at, zone).slice(0, 16).replace(' ', 'T');
}

function shownAs(at: number, zone: string): number {
  return Date.parse(`${dateTime(at, zone).replace(' ', 'T')}Z`);
}

/** The instant of a wall-clock time: the first of two, and after the gap when there is none. `null` when it is no time. */
export function instantOf(wall: string, zone: string): number | null {
  const meant = Date.parse(`${wall}Z`);
  if (Number.isNaN(meant)) return null;
  const known = knownZone(zone);
  // The offsets a day before and after are those on both sides of a clock change.
  const candidates = [-1, 1].map((side) => {
    const near = meant + side * 86_400_000;
    return meant - (shownAs(near, known) - near);
  });
  // At the ends of all time there is no day before or after.
  if (!candidates.every(Number.isFinite)) return null;
  const exact = candidates.filter((at) => shownAs(at, known) === meant);
  return exact.length > 0 ? Math.min(...exact) : Math.max(...candidates);
}

/** The same for the API, or `null` when nothing was typed. */
export function instantText(wall: string, zone: string): string | null {
  const at = instantOf(wall, zone);
  return at === null ? null : new Date(at).toISOString().replace('.000Z', 'Z');
}

/** The days of a month, `2026-11-01` first. */
export function daysOfMonth(month: string): string[] {
  const [year = 1970, index = 1] = month.split('-').map(Number);
  const count = new Date(Date.UTC(year, index, 0)).getUTCDate();
  return Array.from({ length: count }, (_, at) => `${month}-${String(at + 1).padStart(2, '0')}`);
}

/** The month before or after another, such as `2026-12`. */
export function monthFrom(month: string, by: number): string {
  const [year = 1970, index = 1] = month.split('-').map(Number);
  return new Date(Date.UTC(year, index - 1 + by, 1)).toISOString().slice(0, 7);
}

/** The day after or before another, such as `2026-11-17`. */
export function dayFrom(day: string, by: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + by * 86_400_000).toISOString().slice(0, 10);
}

/** Which column of a week that begins on Monday a day stands in: 0 to 6. */
export function columnOf(day: string): number {
  return (new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7;
}

/** Whether a text is a day that calendars know, such as `2026-11-16`. */
export function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const at = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
}
