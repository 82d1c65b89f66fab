// One thing read from the API and kept fresh: its value, its problem, and whether it is being read.
import { ApiError } from '../api/client';
import { type LiveEvent, live } from './live.svelte';

const PACE_MS = 1_000;

export class Reading<T> {
  value = $state.raw<T | null>(null);
  problem = $state<ApiError | null>(null);
  isLoading = $state(false);
  #current: AbortController | null = null;
  #readAt = 0;
  #planned: ReturnType<typeof setTimeout> | null = null;
  /** Events came while a reading was under way: another one is due after it, at this pace. */
  #due: number | null = null;

  constructor(readonly read: (signal: AbortSignal) => Promise<T>) {}

  /** Reads once more; what was there stays until the answer comes. */
  async refresh(): Promise<void> {
    this.#current?.abort();
    const current = new AbortController();
    this.#current = current;
    this.isLoading = true;
    this.#readAt = Date.now();
    try {
      const value = await this.read(current.signal);
      if (current.signal.aborted) return;
      this.value = value;
      this.problem = null;
    } catch (error) {
      if (current.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.problem = error;
    } finally {
      if (this.#current === current) this.#ended();
    }
  }

  #ended(): void {
    this.#current = null;
    this.isLoading = false;
    const due = this.#due;
    this.#due = null;
    if (due !== null) this.#plan(due);
  }

  /** Reads anew after events that concern it, at most once a second, until the function that comes back is called. */
  follow(concerns: (event: LiveEvent) => boolean, pace = PACE_MS): () => void {
    const off = live.on((event) => {
      if (event.kind === 'reset' || concerns(event)) this.#plan(pace);
    });
    return () => {
      off();
      if (this.#planned) clearTimeout(this.#planned);
      this.#planned = null;
      this.#due = null;
      this.#current?.abort();
    };
  }

  #plan(pace: number): void {
    this.#planned ??= setTimeout(
      () => {
        this.#planned = null;
        // A slow reading ends first: cut short at every event, it would never end.
        if (this.#current) this.#due = pace;
        else void this.refresh();
      },
      Math.max(0, this.#readAt + pace - Date.now()),
    );
  }
}
