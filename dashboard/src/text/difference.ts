// What changed between two JSON values: one line for each field that differs.
import { ExactNumber, writeExact } from './exact';

export interface Change {
  /** Where, such as `target.url` or `steps[1].queue`; empty for the whole. */
  path: string;
  /** As JSON; `null` when there was nothing. */
  before: string | null;
  after: string | null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

function step(path: string, name: string): string {
  const plain = /^[A-Za-z_][\w-]*$/.test(name);
  if (!plain) return `${path}[${JSON.stringify(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

/** The fields that differ, in the order of the value before; what is new comes last. */
export function difference(before: unknown, after: unknown, path = ''): Change[] {
  if (isObject(before) && isObject(after)) {
    const names = [...Object.keys(before), ...Object.keys(after).filter((name) => !Object.hasOwn(before, name))];
    return names.flatMap((name) => difference(field(before, name), field(after, name), step(path, name)));
  }
  // Lists of the same length are told item by item; others as a whole, because items may have moved.
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    return before.flatMap((item, at) => difference(item, after[at], `${path}[${at}]`));
  }
  const [was, is] = [written(before), written(after)];
  return was === is ? [] : [{ path, before: was, after: is }];
}

function field(value: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

function written(value: unknown): string | null {
  return value === undefined ? null : writeExact(value);
}

/** What always changes with a change, and says nothing about it. */
const BESIDE = ['updated_at', 'version'];

/** The change of an audit entry: what was there before and is now, without what only counts changes. */
export function changeOf(before: unknown, after: unknown): Change[] {
  const found = difference(before ?? undefined, after ?? undefined);
  return found.filter(({ path }) => !BESIDE.includes(path));
}
