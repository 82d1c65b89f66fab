// The lines of a run's log, read page by page and then followed for as long as the run goes on.
import { ApiError, api } from '../../api/client';
import type { LogLine, Page } from '../../api/types';
import { live } from '../../app/live.svelte';
import { droppable } from '../../text/log';

const PAGE = 500;
/** Of more than this, the rest stays on the server; a download has all of it. */
export const KEPT_LINES = 50_000;
const POLL_MS = 1_000;

export class LogTail {
  lines = $state.raw<LogLine[]>([]);
  problem = $state<ApiError | null>(null);
  isRead = $state(false);
  /** Lines at the beginning that are not kept here any more. */
  dropped = $state(0);
  #stop: AbortController | null = null;
  #wake: (() => void) | null = null;
  #after: number | null = null;

  constructor(
    readonly jobId: string,
    readonly isGoingOn: () => boolean,
  ) {}

  /** Reads until the run has ended and all of it is there, or until the function that comes back is called. */
  start(): () => void {
    this.#stop = new AbortController();
    void this.#follow(this.#stop.signal);
    return () => {
      this.#stop?.abort();
      this.#wake?.();
    };
  }

  /** Something happened to the job: look at once. */
  look(): void {
    this.#wake?.();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Asked before reading, so that the last lines of a run that ends meanwhile are not missed.
      const goesOn = this.isGoingOn();
      await this.#readAll(signal);
      if (signal.aborted) return;
      if (goesOn || this.problem) await this.#wait(POLL_MS);
      else await this.#wait(null);
    }
  }

  #wait(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      // While live updates are paused nothing is read by itself; their resuming wakes it.
      const elapsed = () => live.status !== 'paused' && resolve();
      const timer = ms === null ? undefined : setTimeout(elapsed, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        const query = { after: this.#after, limit: PAGE };
        const page = await api.get<Page<LogLine>>(`/jobs/${this.jobId}/logs`, query, { signal });
        this.#take(page.items);
        this.problem = null;
        this.isRead = true;
        if (!page.next_cursor || page.items.length === 0) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.problem = error;
    }
  }

  #take(more: LogLine[]): void {
    const last = more.at(-1);
    if (!last) return;
    this.#after = last.sequence;
    const all = [...this.lines, ...more];
    const excess = droppable(all.length, KEPT_LINES);
    this.dropped += excess;
    this.lines = excess > 0 ? all.slice(excess) : all;
  }

  /** Every line, from the server, as the text of a file. */
  async wholeText(plain: (text: string) => string): Promise<string> {
    const parts: string[] = [];
    let cursor: string | null = null;
    do {
      const query = { limit: PAGE, cursor };
      const page: Page<LogLine> = await api.get<Page<LogLine>>(`/jobs/${this.jobId}/logs`, query);
      parts.push(...page.items.map((line) => `${plain(line.text)}\n`));
      cursor = page.next_cursor ?? null;
    } while (cursor);
    return parts.join('');
  }
}
