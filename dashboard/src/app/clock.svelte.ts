// The time that the pages count from: this machine's, put right by the server's when they differ.

/** Differences below this come from the network, and from a header that counts in seconds. */
const NOTICED_MS = 3_000;

class Clock {
  #now = $state(Date.now());
  #ahead = 0;

  constructor() {
    setInterval(() => (this.#now = Date.now() + this.#ahead), 1_000);
  }

  /** Now, in milliseconds; whoever reads it is drawn anew every second. */
  get now(): number {
    return this.#now;
  }

  /** Learns the server's time from one of its answers. */
  learn(server: number): void {
    const ahead = server - Date.now();
    this.#ahead = Math.abs(ahead) > NOTICED_MS ? ahead : 0;
  }
}

export const clock = new Clock();
