// The keyboard: `/` searches, `j` and `k` walk rows, `x` selects, `g` and a letter goes to a page, `?` explains.
import { preferences } from './preferences.svelte';
import { router } from './router.svelte';

export interface Shortcut {
  keys: string;
  does: string;
}

/** Where `g` and a letter lead. */
export const PLACES: Record<string, { path: string; name: string }> = {
  o: { path: '', name: 'Overview' },
  s: { path: 'schedules', name: 'Schedules' },
  j: { path: 'jobs', name: 'Jobs' },
  f: { path: 'flows', name: 'Flows' },
  q: { path: 'queues', name: 'Queues' },
  n: { path: 'nodes', name: 'Nodes' },
};

export const SHORTCUTS: Shortcut[] = [
  { keys: '/', does: 'search this list' },
  { keys: 'j k', does: 'next and previous row' },
  { keys: 'Enter', does: 'open the row' },
  { keys: 'x', does: 'select the row' },
  { keys: 'Ctrl K', does: 'go to anything' },
  { keys: 'p', does: 'pause or resume live updates' },
  ...Object.entries(PLACES).map(([key, { name }]) => ({ keys: `g ${key}`, does: `go to ${name}` })),
  { keys: '?', does: 'show this list' },
  { keys: 'Esc', does: 'close what is open' },
];

interface Handlers {
  palette: () => void;
  help: () => void;
  pause: () => void;
}

/** Listens to the keyboard until the function that comes back is called. */
export function listen(handlers: Handlers): () => void {
  let goes = false;
  const pressed = (event: KeyboardEvent) => {
    if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      handlers.palette();
      return;
    }
    if (!preferences.singleKeys) return;
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]')) return;
    const place = goes ? PLACES[event.key] : undefined;
    goes = event.key === 'g' && !goes;
    if (place) router.go(place.path);
    else if (!single(event.key, handlers)) return;
    event.preventDefault();
  };
  addEventListener('keydown', pressed);
  return () => removeEventListener('keydown', pressed);
}

/** Does what a key alone means; `false` when it means nothing. */
function single(key: string, handlers: Handlers): boolean {
  if (key === '/') document.querySelector<HTMLElement>('[data-search]')?.focus();
  else if (key === '?') handlers.help();
  else if (key === 'p') handlers.pause();
  else if (key === 'j') walk(1);
  else if (key === 'k') walk(-1);
  else if (key === 'x') currentRow()?.querySelector<HTMLInputElement>('input[type=checkbox]')?.click();
  else return false;
  return true;
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'button'].includes(target.type);
  return target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

function currentRow(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>('[data-row]') ?? null;
}

/** Moves the focus to the link of another row; Enter opens it then. */
function walk(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  if (rows.length === 0) return;
  const current = currentRow();
  const at = current ? rows.indexOf(current) + by : 0;
  const row = rows[Math.max(0, Math.min(rows.length - 1, at))];
  const target = row?.querySelector<HTMLElement>('a') ?? row;
  target?.focus();
  row?.scrollIntoView({ block: 'nearest' });
}
