// The cron builder: a few plain ways to say when, written as a cron expression and read back from one.

export type PlanKind = 'minutes' | 'hours' | 'daily' | 'weekly' | 'monthly' | 'every' | 'at' | 'cron';
export type MonthDay = 'day' | 'last' | 'nth';

/** When a schedule fires, as the builder's fields say it. Only the fields of its kind count. */
export interface Plan {
  kind: PlanKind;
  /** Every so many minutes, or hours. */
  step: number;
  /** At which minute of those hours. */
  minute: number;
  /** `HH:MM`, for daily, weekly and monthly. */
  time: string;
  /** Days of the week, 0 is Sunday. */
  days: number[];
  monthDay: MonthDay;
  dayOfMonth: number;
  /** Which of its weekdays in a month: 1 to 4, or 0 for the last. */
  nth: number;
  weekday: number;
  /** A duration such as `90s`. */
  every: string;
  /** A single wall-clock time. */
  at: string;
  /** The expression as it was typed. */
  cron: string;
}

export const PLAN_KINDS: [PlanKind, string][] = [
  ['minutes', 'Minutes'],
  ['hours', 'Hours'],
  ['daily', 'Daily'],
  ['weekly', 'Weekly'],
  ['monthly', 'Monthly'],
  ['every', 'Interval'],
  ['at', 'Once'],
  ['cron', 'Cron'],
];

/** Steps that divide an hour or a day: others would not come evenly. */
export const MINUTE_STEPS = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];
export const HOUR_STEPS = [1, 2, 3, 4, 6, 8, 12];
/** As people list them, Monday first. */
export const WEEKDAYS: [number, string][] = [
  [1, 'Monday'],
  [2, 'Tuesday'],
  [3, 'Wednesday'],
  [4, 'Thursday'],
  [5, 'Friday'],
  [6, 'Saturday'],
  [0, 'Sunday'],
];

export function newPlan(): Plan {
  return {
    kind: 'daily',
    step: 15,
    minute: 0,
    time: '09:00',
    days: [1, 2, 3, 4, 5],
    monthDay: 'day',
    dayOfMonth: 1,
    nth: 1,
    weekday: 1,
    every: '1h',
    at: '',
    cron: '0 9 * * *',
  };
}

/** Whether a plan is for a time of day. */
export function hasTime(plan: Plan): boolean {
  return plan.kind === 'daily' || plan.kind === 'weekly' || plan.kind === 'monthly';
}

/** What a plan cannot do without and does not have: a field that was cleared says nothing, and not midnight. */
export function lacking(plan: Plan): 'days' | 'time' | null {
  if (plan.kind === 'weekly' && plan.days.length === 0) return 'days';
  return hasTime(plan) && !/^\d{2}:\d{2}/.test(plan.time) ? 'time' : null;
}

/** The expression of a plan; empty for those that are none, and for what lacks something. */
export function writeCron(plan: Plan): string {
  if (lacking(plan)) return '';
  const [hour, minute] = plan.time.split(':').map(Number);
  const at = `${minute} ${hour}`;
  switch (plan.kind) {
    case 'minutes':
      return plan.step === 1 ? '* * * * *' : `*/${plan.step} * * * *`;
    case 'hours':
      return `${plan.minute} ${plan.step === 1 ? '*' : `*/${plan.step}`} * * *`;
    case 'daily':
      return `${at} * * *`;
    case 'weekly':
      return `${at} * * ${writeDays(plan.days)}`;
    case 'monthly':
      return `${at} ${writeMonthDay(plan)}`;
    case 'cron':
      return plan.cron.trim();
    default:
      return '';
  }
}

function writeMonthDay(plan: Plan): string {
  if (plan.monthDay === 'last') return 'L * *';
  if (plan.monthDay === 'day') return `${plan.dayOfMonth} * *`;
  return `* * ${plan.weekday}${plan.nth === 0 ? 'L' : `#${plan.nth}`}`;
}

function writeDays(days: number[]): string {
  const sorted = [...days].sort((a, b) => a - b);
  const isRow = sorted.length > 2 && sorted.every((day, at) => day === (sorted[0] ?? 0) + at);
  return isRow ? `${sorted[0]}-${sorted.at(-1)}` : sorted.join(',');
}

/** The plan that an expression stands for. What the builder has no fields for is a plan of kind `cron`. */
export function readCron(expression: string): Plan {
  const cron = expression.trim();
  const plan: Plan = { ...newPlan(), cron };
  const fields = (WORDS[cron] ?? cron).split(/\s+/);
  const found = fields.length === 5 ? simple(fields) : null;
  return found ? { ...plan, ...found } : { ...plan, kind: 'cron' };
}

const WORDS: Record<string, string> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
};

function simple(fields: string[]): Partial<Plan> | null {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields;
  if (month !== '*') return null;
  const isEveryDay = day === '*' && weekday === '*';
  const every = isEveryDay ? steps(minute, hour) : null;
  if (every) return every;
  const [m, h] = [whole(minute, 59), whole(hour, 23)];
  if (m === null || h === null) return null;
  const time = `${String(h).padStart(2, '0')}:${String(m).padStart(2, '0')}`;
  if (isEveryDay) return { kind: 'daily', time };
  if (weekday === '*') {
    if (day === 'L') return { kind: 'monthly', monthDay: 'last', time };
    const dayOfMonth = whole(day, 31);
    return dayOfMonth ? { kind: 'monthly', monthDay: 'day', dayOfMonth, time } : null;
  }
  return day === '*' ? ofWeekdays(weekday, time) : null;
}

function steps(minute: string, hour: string): Partial<Plan> | null {
  if (hour === '*') {
    const step = minute === '*' ? 1 : stepOf(minute);
    if (step !== null) return MINUTE_STEPS.includes(step) ? { kind: 'minutes', step } : null;
  }
  const step = hour === '*' ? 1 : stepOf(hour);
  const at = whole(minute, 59);
  return step !== null && at !== null && HOUR_STEPS.includes(step) ? { kind: 'hours', step, minute: at } : null;
}

function ofWeekdays(text: string, time: string): Partial<Plan> | null {
  const nth = /^([0-7])(?:#([1-4])|L)$/.exec(text);
  if (nth) return { kind: 'monthly', monthDay: 'nth', weekday: Number(nth[1]) % 7, nth: Number(nth[2] ?? 0), time };
  const days = readDays(text);
  return days ? { kind: 'weekly', days, time } : null;
}

const NAMES = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

function readDays(text: string): number[] | null {
  const found = new Set<number>();
  for (const item of text.toUpperCase().split(',')) {
    const ends = item.split('-').map((end) => (NAMES.includes(end) ? NAMES.indexOf(end) : whole(end, 7)));
    const [from, to = from] = ends;
    if (ends.length > 2 || from === null || to === null || from === undefined || to === undefined) return null;
    if (from > to) return null;
    for (let day = from; day <= to; day += 1) found.add(day % 7);
  }
  return [...found].sort((a, b) => a - b);
}

function whole(text: string, most: number): number | null {
  return /^\d{1,2}$/.test(text) && Number(text) <= most ? Number(text) : null;
}

function stepOf(text: string): number | null {
  const found = /^\*\/(\d{1,2})$/.exec(text);
  return found ? Number(found[1]) : null;
}
