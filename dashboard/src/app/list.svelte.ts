// A list read page by page: one request a page, and no row moves while somebody types, selects or reads on.
import { untrack } from 'svelte';
import { ApiError } from '../api/client';
import type { Page } from '../api/types';
import { type LiveEvent, live } from './live.svelte';

/** The shortest time between two readings that events ask for. */
const PACE_MS = 2_000;

export type ReadPage<T> = (cursor: string | null, signal: AbortSignal) => Promise<Page<T>>;

export class KeysetList<T> {
  items = $state.raw<T[]>([]);
  isLoading = $state(false);
  /** Whether the first page has come. */
  isRead = $state(false);
  problem = $state<ApiError | null>(null);
  /** What happened since the rows were read, while they were held. */
  unseen = $state(0);
  #cursors = $state.raw<(string | null)[]>([null]);
  #next = $state<string | null>(null);
  #reading: AbortController | null = null;
  #readAt = 0;
  #planned: ReturnType<typeof setTimeout> | null = null;
  /** Events came while a reading was under way: another one is due after it, held by this. */
  #due: (() => boolean) | null = null;

  constructor(readonly read: ReadPage<T>) {}

  get page(): number {
    return this.#cursors.length;
  }

  get hasNext(): boolean {
    return this.#next !== null;
  }

  get hasPrevious(): boolean {
    return this.#cursors.length > 1;
  }

  /** Begins anew on the first page: another filter. */
  async restart(): Promise<void> {
    this.#cursors = [null];
    await this.refresh();
  }

  async next(): Promise<void> {
    if (!this.#next) return;
    this.#cursors = [...this.#cursors, this.#next];
    await this.refresh();
  }

  async previous(): Promise<void> {
    if (!this.hasPrevious) return;
    this.#cursors = this.#cursors.slice(0, -1);
    await this.refresh();
  }

  /** Reads the page that is shown once more. A reading that is overtaken by another one is dropped. */
  async refresh(): Promise<void> {
    await this.#readAnew(() => false);
  }

  async #readAnew(isHeld: () => boolean): Promise<void> {
    this.#reading?.abort();
    const reading = new AbortController();
    this.#reading = reading;
    this.isLoading = true;
    this.#readAt = Date.now();
    // Where it is does not make whoever asked in an effect ask again.
    const cursor = untrack(() => this.#cursors.at(-1) ?? null);
    try {
      const page = await this.read(cursor, reading.signal);
      if (reading.signal.aborted) return;
      // Whoever began to type while the answer was on its way is not disturbed either.
      if (isHeld()) {
        this.unseen += 1;
        return;
      }
      this.items = page.items;
      this.#next = page.next_cursor ?? null;
      this.unseen = 0;
      this.problem = null;
      this.isRead = true;
    } catch (error) {
      if (reading.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.problem = error;
    } finally {
      if (this.#reading === reading) this.#ended();
    }
  }

  #ended(): void {
    this.#reading = null;
    this.isLoading = false;
    const due = this.#due;
    this.#due = null;
    if (due) this.#plan(due);
  }

  /**
   * Follows events until the function that comes back is called: the page is read anew, at most every two seconds, or
   * only counted while `isHeld` says so and when somebody has gone on to further pages.
   */
  follow(concerns: (event: LiveEvent) => boolean, isHeld: () => boolean): () => void {
    const mustStay = () => isHeld() || this.hasPrevious;
    const off = live.on((event) => {
      if (event.kind !== 'reset' && !concerns(event)) return;
      if (mustStay()) this.unseen += 1;
      else this.#plan(mustStay);
    });
    return () => {
      off();
      if (this.#planned) clearTimeout(this.#planned);
      this.#planned = null;
      this.#due = null;
      this.#reading?.abort();
    };
  }

  #plan(isHeld: () => boolean): void {
    if (this.#planned) return;
    const wait = Math.max(0, this.#readAt + PACE_MS - Date.now());
    this.#planned = setTimeout(() => {
      this.#planned = null;
      // Whoever began to type meanwhile is not disturbed.
      if (isHeld()) this.unseen += 1;
      // A slow reading ends first: cut short at every event, it would never end.
      else if (this.#reading) this.#due = isHeld;
      else void this.#readAnew(isHeld);
    }, wait);
  }
}
