// The same act for a terminal: `punctual` commands and `curl` calls that can be pasted as they are.

/** One word of a POSIX shell, quoted only when it must be. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command line of its words. */
export function commandLine(...words: string[]): string {
  return words.map(quoted).join(' ');
}

/** A flag with its value: as one word where the value begins with a dash and would be taken for another flag. */
export function flag(name: string, value: string): string[] {
  return isLikeFlag(value) ? [`${name}=${value}`] : [name, value];
}

/** A command of `punctual` about something by its name; names that begin with a dash come last, after `--`. */
export function commandOn(verb: string, names: string[], flags: string[] = []): string {
  const begin = ['punctual', ...verb.split(' ')];
  if (names.some(isLikeFlag)) return commandLine(...begin, ...flags, '--', ...names);
  return commandLine(...begin, ...names, ...flags);
}

/** The same for what takes a program after `--`: a name that begins with a dash has no place there, so `null`. */
export function commandWithProgram(verb: string, name: string, flags: string[]): string | null {
  return isLikeFlag(name) ? null : commandOn(verb, [name], flags);
}

function isLikeFlag(word: string): boolean {
  return word.startsWith('-');
}

/** A call of the API by curl, with the token from the environment. */
export function curl(method: string, url: string, body?: string): string {
  const words = ['curl', '--fail-with-body'];
  if (method !== 'GET') words.push('--request', method);
  const header = '--header "Authorization: Bearer $PUNCTUAL_TOKEN"';
  const sent = body === undefined ? '' : ` --header 'Content-Type: application/json' --data ${quoted(body)}`;
  return `${words.join(' ')} ${header}${sent} ${quoted(url)}`;
}
