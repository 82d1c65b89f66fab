// JSON without loss: numbers that JavaScript would round keep their digits.

/** A number as it was written, because JavaScript cannot hold it. */
export class ExactNumber {
  constructor(readonly text: string) {}

  /** For arithmetic that does not need the last digits. */
  valueOf(): number {
    return Number(this.text);
  }

  toString(): string {
    return this.text;
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Whether reading and writing the number in JavaScript gives the same digits. */
function survives(text: string): boolean {
  return String(Number(text)) === text;
}

/** Reads JSON; throws `SyntaxError` as `JSON.parse` does. */
export function parseExact(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  return hasLossyNumber(text) ? new Reader(text).value() : plain;
}

/** A quick look: only long digits, points and exponents can be lost, and most answers have none. */
function hasLossyNumber(text: string): boolean {
  const strings = /"(?:[^"\\]|\\.)*"/g;
  for (const [number] of text.replace(strings, '""').matchAll(/-?\d[\d.eE+-]*/g)) {
    if (!survives(number)) return true;
  }
  return false;
}

/** Reads text that is known to be JSON. */
class Reader {
  #at = 0;

  constructor(readonly text: string) {}

  value(): unknown {
    this.#space();
    const next = this.text[this.#at];
    if (next === '{') return this.#object();
    if (next === '[') return this.#array();
    if (next === '"') return this.#string();
    if (next === 't') return this.#word('true', true);
    if (next === 'f') return this.#word('false', false);
    if (next === 'n') return this.#word('null', null);
    return this.#number();
  }

  #space(): void {
    while (' \n\r\t'.includes(this.text[this.#at] ?? 'x')) this.#at += 1;
  }

  #word<T>(word: string, value: T): T {
    this.#at += word.length;
    return value;
  }

  #number(): number | ExactNumber {
    NUMBER.lastIndex = this.#at;
    const text = NUMBER.exec(this.text)?.[0] ?? '';
    this.#at += text.length;
    return survives(text) ? Number(text) : new ExactNumber(text);
  }

  #string(): string {
    const begin = this.#at;
    this.#at += 1;
    while (this.text[this.#at] !== '"') this.#at += this.text[this.#at] === '\\' ? 2 : 1;
    this.#at += 1;
    return JSON.parse(this.text.slice(begin, this.#at)) as string;
  }

  #array(): unknown[] {
    const items: unknown[] = [];
    this.#at += 1;
    for (this.#space(); this.text[this.#at] !== ']'; this.#space()) {
      if (this.text[this.#at] === ',') this.#at += 1;
      else items.push(this.value());
    }
    this.#at += 1;
    return items;
  }

  #object(): Record<string, unknown> {
    const fields: [string, unknown][] = [];
    this.#at += 1;
    for (this.#space(); this.text[this.#at] !== '}'; this.#space()) {
      if (this.text[this.#at] === ',') {
        this.#at += 1;
        continue;
      }
      const name = this.#string();
      this.#space();
      this.#at += 1;
      fields.push([name, this.value()]);
    }
    this.#at += 1;
    return Object.fromEntries(fields);
  }
}

/** Writes JSON, exact numbers as they were; with an indent for people. */
export function writeExact(value: unknown, indent = 0): string {
  return write(value, indent, '');
}

function write(value: unknown, indent: number, inset: string): string {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) {
    return block(
      '[',
      ']',
      value.map((item) => write(item, indent, inset + ' '.repeat(indent))),
      indent,
      inset,
    );
  }
  if (value !== null && typeof value === 'object') {
    const gap = indent ? ': ' : ':';
    const fields = Object.entries(value).filter(([, field]) => field !== undefined);
    const written = fields.map(
      ([name, field]) => JSON.stringify(name) + gap + write(field, indent, inset + ' '.repeat(indent)),
    );
    return block('{', '}', written, indent, inset);
  }
  return JSON.stringify(value) ?? 'null';
}

function block(open: string, close: string, parts: string[], indent: number, inset: string): string {
  if (parts.length === 0) return open + close;
  if (!indent) return open + parts.join(',') + close;
  const line = `\n${inset}${' '.repeat(indent)}`;
  return `${open}${line}${parts.join(`,${line}`)}\n${inset}${close}`;
}
