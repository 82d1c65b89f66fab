// A command line as people type it, split into its words as a shell would, without anything a shell would expand.

export interface Words {
  words: string[];
  /** What is wrong with it; `null` when nothing is. */
  problem: string | null;
}

export function splitWords(text: string): Words {
  const words: string[] = [];
  let word: string | null = null;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? '';
    if (letter === "'" || letter === '"') {
      const end = closing(text, at);
      if (end === -1) return { words, problem: `the ${letter} at character ${at + 1} is not closed` };
      const inside = text.slice(at + 1, end);
      word = (word ?? '') + (letter === '"' ? inside.replace(/\\(["\\$`])/g, '$1') : inside);
      at = end;
    } else if (letter === '\\') {
      at += 1;
      word = (word ?? '') + (text[at] ?? '\\');
    } else if (/\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + letter;
    }
  }
  if (word !== null) words.push(word);
  return { words, problem: null };
}

function closing(text: string, from: number): number {
  const quote = text[from];
  for (let at = from + 1; at < text.length; at += 1) {
    if (quote === '"' && text[at] === '\\') at += 1;
    else if (text[at] === quote) return at;
  }
  return -1;
}
