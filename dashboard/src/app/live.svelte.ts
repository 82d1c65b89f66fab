// What happens, as it happens: one stream of events for the whole page, read so that silence is noticed.
import { ApiError, api } from '../api/client';

/** The server says something at least every ten seconds; this much later it is not there. */
const STALE_MS = 15_000;
const AGAIN_MS = [500, 1_000, 2_000, 5_000];
/** How often those are told `tick` who show what changes without an event: alerts, messages, heartbeats. */
const TICK_MS = 5_000;

export interface LiveEvent {
  /** Such as `job.ended` or `schedule.paused`; `reset` means that anything may have changed, `tick` that time passes. */
  kind: string;
  data: Record<string, unknown>;
}

export type LiveStatus = 'connecting' | 'live' | 'stale' | 'paused';
type Listener = (event: LiveEvent) => void;

class Live {
  #status = $state<LiveStatus>('connecting');
  #heard = $state(Date.now());
  #listeners = new Set<Listener>();
  #lastId: string | null = null;
  #stop: AbortController | null = null;
  #fails = 0;

  get status(): LiveStatus {
    return this.#status;
  }

  /** When the server was last heard, in this machine's milliseconds. */
  get heardAt(): number {
    return this.#heard;
  }

  /** Listens until the function that comes back is called. */
  on(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    if (this.#stop) return;
    this.#status = 'connecting';
    this.#heard = Date.now();
    this.#stop = new AbortController();
    void this.#follow(this.#stop.signal);
  }

  stop(): void {
    this.#stop?.abort();
    this.#stop = null;
    // Nothing comes any more, and nothing says so better.
    if (this.#status !== 'paused') this.#status = 'stale';
  }

  /** Stops everything that would change the page; nothing comes back by itself. */
  pause(): void {
    this.stop();
    this.#status = 'paused';
  }

  resume(): void {
    this.#lastId = null;
    this.start();
    this.#tell({ kind: 'reset', data: {} });
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const watch = setInterval(() => {
      if (Date.now() - this.#heard > STALE_MS) this.#status = 'stale';
    }, 1_000);
    const ticks = setInterval(() => {
      if (this.#status === 'live') this.#tell({ kind: 'tick', data: {} });
    }, TICK_MS);
    const ended = () => {
      clearInterval(watch);
      clearInterval(ticks);
    };
    // At once, and not when the loop comes round: what was paused meanwhile is not to become stale.
    signal.addEventListener('abort', ended);
    while (!signal.aborted) {
      try {
        await this.#read(signal);
      } catch (error) {
        // Nobody is logged in: whoever comes next starts it anew.
        if (error instanceof ApiError && error.status === 401) {
          if (!signal.aborted) this.stop();
          break;
        }
      }
      if (signal.aborted) break;
      this.#status = 'stale';
      const wait = AGAIN_MS[Math.min(this.#fails, AGAIN_MS.length - 1)];
      this.#fails += 1;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    ended();
  }

  /** One connection. One that is silent for too long, opening or open, is cut and makes room for the next. */
  async #read(stop: AbortSignal): Promise<void> {
    const connection = new AbortController();
    const cut = () => connection.abort();
    let silence = setTimeout(cut, STALE_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(cut, STALE_MS);
    };
    try {
      await this.#listen(AbortSignal.any([stop, connection.signal]), heard);
    } finally {
      clearTimeout(silence);
      cut();
    }
  }

  async #listen(signal: AbortSignal, heard: () => void): Promise<void> {
    const headers: Record<string, string> = { accept: 'text/event-stream' };
    if (this.#lastId) headers['last-event-id'] = this.#lastId;
    const response = await api.raw('/events', {}, { signal, headers });
    // Without a number to go on from, what happened meanwhile can only be read anew.
    if (this.#fails > 0 && !this.#lastId) this.#tell({ kind: 'reset', data: {} });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) return;
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done || signal.aborted) return;
      heard();
      this.#heard = Date.now();
      this.#fails = 0;
      if (this.#status !== 'live') this.#status = 'live';
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop() ?? '';
      blocks.forEach((block) => this.#take(block));
    }
  }

  #take(block: string): void {
    const field = (name: string) =>
      block
        .split('\n')
        .find((line) => line.startsWith(`${name}:`))
        ?.slice(name.length + 1)
        .trim();
    const kind = field('event');
    this.#lastId = field('id') ?? this.#lastId;
    if (!kind || kind === 'ready') return;
    this.#tell({ kind, data: JSON.parse(field('data') ?? '{}') as Record<string, unknown> });
  }

  #tell(event: LiveEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

export const live = new Live();
