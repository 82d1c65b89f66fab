// Times and lengths of time, in words: absolute in a zone, relative to now, and durations as the API writes them.

const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function localZone(): string {
  return LOCAL;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let found = formats.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...options });
    formats.set(key, found);
  }
  return found;
}

/** A zone that this browser does not know is shown as UTC, and said to be. */
export function knownZone(zone: string | null | undefined): string {
  if (!zone) return 'UTC';
  try {
    format(zone, {});
    return zone;
  } catch {
    return 'UTC';
  }
}

function parts(at: number, zone: string, options: Intl.DateTimeFormatOptions): Record<string, string> {
  const found = format(knownZone(zone), options).formatToParts(at);
  return Object.fromEntries(found.map(({ type, value }) => [type, value]));
}

/** `2026-11-16 09:46:35`. */
export function dateTime(at: number, zone: string): string {
  const { year, month, day, hour, minute, second } = parts(at, zone, {
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  });
  // A browser gives the years before 1000 fewer digits, and no date is read from those.
  return `${year?.padStart(4, '0')}-${month}-${day} ${hour}:${minute}:${second}`;
}

/** `2026-11-16`. */
export function date(at: number, zone: string): string {
  return dateTime(at, zone).slice(0, 10);
}

/** `09:46`. */
export function timeOfDay(at: number, zone: string): string {
  return dateTime(at, zone).slice(11, 16);
}

/** `Mon`. */
export function weekday(at: number, zone: string): string {
  return parts(at, zone, { weekday: 'short' }).weekday ?? '';
}

/** `CET` or `GMT+1`. */
export function zoneName(at: number, zone: string): string {
  return parts(at, zone, { timeZoneName: 'short' }).timeZoneName ?? zone;
}

/** `Mon 2026-11-16 09:46:35 CET`: all that one can want to know of a time. */
export function fullTime(at: number, zone: string): string {
  return `${weekday(at, zone)} ${dateTime(at, zone)} ${zoneName(at, zone)}`;
}

const UNITS: [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
];

/** `1h 5m`, `12s`, `340ms`: the two largest units. A clock that goes wrong gives no negative lengths. */
export function length(ms: number): string {
  const exact = Math.max(0, Math.round(ms));
  if (exact < 1_000) return `${exact}ms`;
  // What is rounded to ten seconds is ten seconds, and not 10.0.
  const whole = exact >= 9_950 ? Math.max(10_000, exact) : exact;
  if (whole < 10_000) return `${(whole / 1_000).toFixed(1)}s`;
  const first = UNITS.findIndex(([, size]) => whole >= size);
  const [unit, size] = UNITS[first] ?? ['s', 1_000];
  const count = Math.floor(whole / size);
  const [nextUnit, nextSize] = UNITS[first + 1] ?? ['', 0];
  const rest = nextSize ? Math.floor((whole % size) / nextSize) : 0;
  return rest > 0 ? `${count}${unit} ${rest}${nextUnit}` : `${count}${unit}`;
}

/** `in 3m`, `2h ago`, `now`. */
export function relative(at: number, now: number): string {
  const ahead = at - now;
  if (Math.abs(ahead) < 1_000) return 'now';
  const text = length(Math.abs(ahead) < 10_000 ? Math.round(Math.abs(ahead) / 1_000) * 1_000 : Math.abs(ahead));
  const short = text.replace('.0s', 's');
  return ahead > 0 ? `in ${short}` : `${short} ago`;
}

const SECONDS: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };

/** The milliseconds of a duration as the API writes it, such as `1h30m`; `null` for `none` and what it is not. */
export function durationMs(text: string | null | undefined): number | null {
  if (!text) return null;
  let sum = 0;
  const rest = text.replace(/(\d+(?:\.\d+)?)(ms|[smhdw])/g, (_, count: string, unit: string) => {
    sum += Number(count) * (SECONDS[unit] ?? 0) * 1_000;
    return '';
  });
  return rest.trim() === '' ? sum : null;
}
