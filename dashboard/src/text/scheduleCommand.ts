// The command of `punctual schedule` that does what the editor would do, where every part of it has a flag.
import { commandWithProgram, flag } from './commands';
import { writeExact } from './exact';
import type { Body } from './scheduleDraft';

/** Fields and the flags that say them as they are. */
const FLAGS: Record<string, string> = {
  cron: '--cron',
  every: '--every',
  at: '--at',
  timezone: '--tz',
  dst_gap: '--dst-gap',
  dst_overlap: '--dst-overlap',
  starts_at: '--starts-at',
  ends_at: '--ends-at',
  description: '--description',
  queue: '--queue',
  priority: '--priority',
  overlap: '--overlap',
  max_concurrent_runs: '--max-concurrent-runs',
  pause_after_failures: '--pause-after-failures',
  calendar: '--calendar',
  jitter: '--jitter',
  timeout: '--timeout',
  grant_id: '--grant',
};

/** `punctual schedule add`, or `null` when a part of it can only be said by the API. */
export function addCommand(body: Body): string | null {
  const { name, ...rest } = body;
  return command('schedule add', String(name ?? 'NAME'), [], rest);
}

/** `punctual schedule edit`, or `null` likewise. */
export function editCommand(key: string, patch: Body): string | null {
  const { name, ...rest } = patch;
  const renamed = typeof name === 'string' ? flag('--name', name) : [];
  return command('schedule edit', key, renamed, rest);
}

function command(verb: string, name: string, begin: string[], body: Body): string | null {
  const flags = [...begin];
  const last: string[] = [];
  for (const [field, value] of Object.entries(body)) {
    const words = field === 'target' ? targetWords(value as Body, last) : fieldWords(field, value);
    if (!words) return null;
    flags.push(...words);
  }
  return commandWithProgram(verb, name, [...flags, ...last]);
}

function fieldWords(name: string, value: unknown): string[] | null {
  if (name === 'calendar' && value === null) return ['--no-calendar'];
  if (value === null) return null;
  const said = FLAGS[name];
  if (said) return flag(said, String(value));
  switch (name) {
    case 'labels':
      return Object.entries(value as Record<string, string>).flatMap(([key, text]) =>
        flag('--label', `${key}=${text}`),
      );
    case 'tags':
      return (value as string[]).flatMap((tag) => flag('--tag', tag));
    case 'input':
      return flag('--input', writeExact(value));
    case 'serial':
      return [value ? '--serial' : '--serial=false'];
    case 'burst_allowed':
      return [value ? '--burst-allowed' : '--burst-allowed=false'];
    case 'enabled':
      return value === false ? ['--paused'] : null;
    case 'missed':
      return typeof value === 'string' ? flag('--missed', value) : null;
    case 'retry':
      return retryWords(value as Body);
    default:
      return null;
  }
}

function retryWords(retry: Body): string[] | null {
  const { max_attempts: attempts, ...rest } = retry;
  return attempts !== undefined && Object.keys(rest).length === 0 ? flag('--attempts', String(attempts)) : null;
}

/** What is to be done; the words of a command come last, after `--`. */
function targetWords(target: Body, last: string[]): string[] {
  const { kind, ...fields } = target;
  const names = Object.keys(fields).sort().join(' ');
  if (kind === 'command' && /^argv( cwd)?( shell)?$/.test(names)) {
    last.push('--', ...(fields.argv as string[]));
    return [...(fields.shell ? ['--shell'] : []), ...(fields.cwd ? flag('--cwd', String(fields.cwd)) : [])];
  }
  if (kind === 'http' && /^(body )?method url$/.test(names)) {
    const body = typeof fields.body === 'string' ? flag('--body', fields.body) : [];
    const method = fields.method === 'POST' ? [] : flag('--method', String(fields.method));
    if (fields.body === undefined || typeof fields.body === 'string') {
      return [...flag('--http', String(fields.url)), ...method, ...body];
    }
  }
  if (kind === 'sql' && names === 'connection function') {
    return flag('--sql', `${String(fields.connection)}:${String(fields.function)}`);
  }
  if ((kind === 'task' || kind === 'flow') && names === 'name') return flag(`--${kind}`, String(fields.name));
  if (kind === 'graph' && names === 'id') return flag('--graph', String(fields.id));
  return flag('--target', writeExact(target));
}
