// Log lines with terminal colours as pieces of text; every other escape is shown as what it is, and does nothing.

export interface Piece {
  text: string;
  /** Classes such as `fg1 bold`; empty for plain text. */
  style: string;
}

interface Pen {
  fore: number | null;
  back: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const PLAIN: Pen = { fore: null, back: null, bold: false, dim: false, italic: false, underline: false };
const COLOURS = /\u001b\[([\d;]*)m/g;

/** Characters that would change how the rest is shown, made visible. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (control) => {
    const code = control.codePointAt(0) ?? 0;
    return code < 0x20
      ? String.fromCodePoint(0x2400 + code)
      : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}

function styleOf(pen: Pen): string {
  const names = [
    pen.fore === null ? '' : `fg${pen.fore}`,
    pen.back === null ? '' : `bg${pen.back}`,
    ...(['bold', 'dim', 'italic', 'underline'] as const).map((name) => (pen[name] ? name : '')),
  ];
  return names.filter((name) => name !== '').join(' ');
}

function turn(pen: Pen, codes: number[]): Pen {
  let now = { ...pen };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) now = { ...PLAIN };
    else if (code === 1) now.bold = true;
    else if (code === 2) now.dim = true;
    else if (code === 3) now.italic = true;
    else if (code === 4) now.underline = true;
    else if (code === 22) now.bold = now.dim = false;
    else if (code === 23) now.italic = false;
    else if (code === 24) now.underline = false;
    else if (code === 39) now.fore = null;
    else if (code === 49) now.back = null;
    else if (code >= 30 && code <= 37) now.fore = code - 30;
    else if (code >= 40 && code <= 47) now.back = code - 40;
    else if (code >= 90 && code <= 97) now.fore = code - 82;
    else if (code >= 100 && code <= 107) now.back = code - 92;
    // 256 colours and true colour: our sixteen are what is legible in both themes.
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
  }
  return now;
}

/** The pieces of one line. */
export function pieces(line: string): Piece[] {
  const found: Piece[] = [];
  let pen = PLAIN;
  let from = 0;
  const add = (text: string) => {
    if (text !== '') found.push({ text: visible(text), style: styleOf(pen) });
  };
  for (const match of line.matchAll(COLOURS)) {
    add(line.slice(from, match.index));
    pen = turn(pen, (match[1] ?? '').split(';').map(Number));
    from = match.index + match[0].length;
  }
  add(line.slice(from));
  return found;
}

/** The line without colours, for searching and files. */
export function plain(line: string): string {
  return line.replace(COLOURS, '');
}
