// The same act for a terminal: `punctual` commands and `curl` calls that can be pasted as they are.

/** One word of a POSIX shell, quoted only when it must be. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command line of its words. */
export function commandLine(...words: string[]): string {
  return words.map(quoted).join(' ');
}

/** A call of the API by curl, with the token from the environment. */
export function curl(method: string, url: string, body?: string): string {
  const words = ['curl', '--fail-with-body'];
  if (method !== 'GET') words.push('--request', method);
  const header = '--header "Authorization: Bearer $PUNCTUAL_TOKEN"';
  const sent = body === undefined ? '' : ` --header 'Content-Type: application/json' --data ${quoted(body)}`;
  return `${words.join(' ')} ${header}${sent} ${quoted(url)}`;
}
