// What people do, and what came of it: a short message for each, with the server's reason when it was refused.
import { ApiError } from '../api/client';

export interface Told {
  id: number;
  isProblem: boolean;
  text: string;
  remedy: string | null;
  link: { href: string; text: string } | null;
}

class Messages {
  list = $state<Told[]>([]);
  #next = 1;

  tell(text: string, more: Partial<Omit<Told, 'id' | 'text'>> = {}): void {
    const told: Told = { id: this.#next++, isProblem: false, remedy: null, link: null, ...more, text };
    this.list.push(told);
    // Problems stay until they are read.
    if (!told.isProblem) setTimeout(() => this.drop(told.id), 6_000);
  }

  refused(error: ApiError): void {
    this.tell(error.message, { isProblem: true, remedy: error.remedy });
  }

  drop(id: number): void {
    this.list = this.list.filter((told) => told.id !== id);
  }
}

export const messages = new Messages();

/** Does something and says so. `null` when it was refused, which has then been told. */
export async function perform<T>(done: string | ((result: T) => string), act: () => Promise<T>): Promise<T | null> {
  try {
    const result = await act();
    messages.tell(typeof done === 'string' ? done : done(result));
    return result;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    messages.refused(error);
    return null;
  }
}

/** Puts text on the clipboard; on plain http a browser has no clipboard for us, and the old way is taken. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    // Inside an open dialog nothing outside of it can be selected.
    const place = document.querySelector('dialog[open]') ?? document.body;
    place.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  messages.tell('Copied');
}
