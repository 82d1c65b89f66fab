// Looking through a log: which lines have a text, where in a line it is, and how much of a long line is shown.
import { type Piece, pieces, plain, visible } from './ansi';

/** More of a line than this is shown on demand. */
export const SHOWN_OF_LINE = 2_000;

/** The places in a list of lines whose text has what is looked for, whatever its case. */
export function matches(lines: readonly { text: string }[], asked: string): number[] {
  const wanted = asked.toLowerCase();
  if (wanted === '') return [];
  return lines.flatMap((line, at) => (plain(line.text).toLowerCase().includes(wanted) ? [at] : []));
}

export interface ShownPiece extends Piece {
  isMatch: boolean;
}

/** The pieces of a line, cut to its bound unless the whole is wanted, with what is looked for apart. */
export function shownPieces(text: string, asked: string, isWhole: boolean): ShownPiece[] {
  const found = pieces(isWhole ? text : text.slice(0, SHOWN_OF_LINE));
  const marks = ranges(found.map((piece) => piece.text).join(''), visible(asked));
  let at = 0;
  return found.flatMap((piece) => {
    const parts = split(piece, at, marks);
    at += piece.text.length;
    return parts;
  });
}

/** From where to where the text has what is looked for; colours may change in between. */
function ranges(text: string, asked: string): [number, number][] {
  const lower = text.toLowerCase();
  const wanted = asked.toLowerCase();
  // Letters whose small form is longer would put the marks in wrong places.
  if (wanted === '' || lower.length !== text.length) return [];
  const found: [number, number][] = [];
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + wanted.length)) {
    found.push([at, at + wanted.length]);
  }
  return found;
}

/** A piece that begins at a place of its line, in parts that are marked or not. */
function split(piece: Piece, begin: number, marks: [number, number][]): ShownPiece[] {
  const parts: ShownPiece[] = [];
  let from = 0;
  const add = (to: number, isMatch: boolean) => {
    if (to > from) parts.push({ ...piece, text: piece.text.slice(from, to), isMatch });
    from = Math.max(from, to);
  };
  for (const [first, last] of marks) {
    if (last <= begin || first >= begin + piece.text.length) continue;
    add(first - begin, false);
    add(Math.min(last - begin, piece.text.length), true);
  }
  add(piece.text.length, false);
  return parts;
}

/** So many lines are drawn, and dropped, together. */
export const BLOCK_LINES = 100;

/** How many of the first lines to drop so that at least `kept` stay: whole blocks, so that the others stay as they are. */
export function droppable(lines: number, kept: number): number {
  return Math.floor(Math.max(0, lines - kept) / BLOCK_LINES) * BLOCK_LINES;
}

/** Lines in blocks, of which only those near to what is seen are drawn. */
export function blocks<T>(lines: readonly T[], size: number): T[][] {
  const found: T[][] = [];
  for (let at = 0; at < lines.length; at += size) found.push(lines.slice(at, at + size));
  return found;
}
