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
  const wanted = visible(asked).toLowerCase();
  return found.flatMap((piece) => (wanted === '' ? [{ ...piece, isMatch: false }] : split(piece, wanted)));
}

function split(piece: Piece, wanted: string): ShownPiece[] {
  const lower = piece.text.toLowerCase();
  // Letters whose small form is longer would put the marks in wrong places.
  if (lower.length !== piece.text.length) return [{ ...piece, isMatch: lower.includes(wanted) }];
  const parts: ShownPiece[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    if (at > from) parts.push({ ...piece, text: piece.text.slice(from, at), isMatch: false });
    parts.push({ ...piece, text: piece.text.slice(at, at + wanted.length), isMatch: true });
    from = at + wanted.length;
  }
  if (from < piece.text.length) parts.push({ ...piece, text: piece.text.slice(from), isMatch: false });
  return parts;
}

/** Lines in blocks, of which only those near to what is seen are drawn. */
export function blocks<T>(lines: readonly T[], size: number): T[][] {
  const found: T[][] = [];
  for (let at = 0; at < lines.length; at += size) found.push(lines.slice(at, at + size));
  return found;
}
