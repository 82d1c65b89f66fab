// The search box of a list: words such as `state:failed queue:mail`, read and written.

export interface Token {
  key: string;
  value: string;
}

export interface Search {
  tokens: Token[];
  /** What has no key. */
  words: string[];
}

const PATTERN = /(?:([a-z_]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g;

/** Reads a search; only the keys given are keys, so that `http://x` is a word. */
export function readSearch(text: string, keys: readonly string[]): Search {
  const search: Search = { tokens: [], words: [] };
  for (const [whole, key, quoted, bare] of text.matchAll(PATTERN)) {
    const value = quoted === undefined ? (bare ?? '') : quoted.replace(/\\(.)/g, '$1');
    if (key && keys.includes(key)) search.tokens.push({ key, value });
    else search.words.push(key || quoted === undefined ? whole : value);
  }
  return search;
}

function inQuotes(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function written(value: string): string {
  return /^[^\s"]+$/.test(value) ? value : inQuotes(value);
}

/** A word; one that looks like a token is quoted, so that it stays a word. */
function writtenWord(word: string): string {
  return /^[a-z_]+:/.test(word) ? inQuotes(word) : written(word);
}

export function writeSearch(search: Search): string {
  const tokens = search.tokens.map(({ key, value }) => `${key}:${written(value)}`);
  return [...tokens, ...search.words.map(writtenWord)].join(' ');
}

/** The value of a key; the last one said wins. */
export function valueOf(search: Search, key: string): string | null {
  return search.tokens.findLast((token) => token.key === key)?.value ?? null;
}

/** The search with another value for a key, or without it. */
export function withValue(search: Search, key: string, value: string | null): Search {
  const others = search.tokens.filter((token) => token.key !== key);
  return { ...search, tokens: value === null ? others : [...others, { key, value }] };
}
