// What the contestants for Node share: the protocol, and the scenarios over what each peer can do.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const BATCH = 1000;
const WINDOW = 20_000;
// Calls before what counts, as many as Punctual makes; and at least so many by each caller.
const WARM_UP = 50;
const WARM_UP_EACH = 2;
const SLOT_MARGIN_MS = 15_000;
const SLOT_PATIENCE_MS = 30_000;
const DRAIN_PATIENCE_MS = 60_000;

/**
 * Plays the scenario that the one argument asks for.
 *
 * `about` is the peer's description. `open({url, settings, scenario, about, callers})` migrates an empty database and
 * answers with what the peer can do:
 * `enqueueOne(n)`, `enqueueMany(numbers)`, `work(handle)` (resolves when the worker runs; `handle(n)` is to be called at
 * the start of each job), `left()` and `kept()` (queries on the peer's own tables), `durability()` (what the database
 * says on a connection of the peer's own, for `ready`), and, for `slots`, `workOnSchedules(schedules, slot, handle)`.
 */
export async function main(about, open) {
  // Whatever a library prints must not get between the lines of the protocol.
  console.log = console.info = console.debug = console.error;
  try {
    const done = await play(about, open, parse(process.argv));
    // Whoever asked looks at this process's memory, and then closes stdin.
    isDone = true;
    say(done);
  } catch (error) {
    say({ event: "failed", why: String(error?.message ?? error) });
    console.error(error);
    process.exit(1);
  }
}

/**
 * Whether it is about how soon a job starts, or about how many can be handled by what makes them start soon. Slots are
 * not: of many jobs that are due at once, the last one starts soonest by what handles many.
 */
export function isAboutLatency({ scenario, about }) {
  return scenario === "latency" || about === "latency";
}

/** The version of a package that is installed beside this file. */
export function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
}

function parse(argv) {
  if (argv.length !== 3) throw new Error("give one argument: the request, a JSON object (see bench/peers/README.md)");
  try {
    return JSON.parse(argv[2]);
  } catch (error) {
    throw new Error(`the request is not JSON: ${error.message}`);
  }
}

async function play(about, open, request) {
  if (request.scenario === "about") return about;
  const scenario = SCENARIOS[request.scenario];
  if (!scenario || !about.scenarios.includes(request.scenario)) {
    throw new Error(`${about.name} has no scenario ${JSON.stringify(request.scenario)}: it has ${about.scenarios}`);
  }
  if (request.settings !== "default" && request.settings !== "best") {
    throw new Error(`settings are "default" or "best", not ${JSON.stringify(request.settings)}`);
  }
  const peer = await open(request);
  return { event: "done", ...(await scenario(peer, request)) };
}

// Whether all is said. A stdin that is closed before means that whoever asked is gone.
let isDone = false;
let heardGo;
const wordToGo = new Promise((resolve) => (heardGo = resolve));
createInterface({ input: process.stdin })
  .on("line", (line) => line.trim() === "go" && heardGo())
  .on("close", () => {
    if (isDone) process.exit(0);
    say({ event: "failed", why: "stdin was closed before all was done" });
    process.exit(1);
  });

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function go(peer, ready) {
  say({ event: "ready", ...ready, ...(await peer.durability()) });
  await wordToGo;
  return performance.now();
}

const seconds = (since) => (performance.now() - since) / 1000;

/** Counts the calls of the handler, and how many different jobs they were for. */
class Tally {
  handled = 0;
  distinct = 0;
  #seen = new Uint8Array(BATCH);
  #goal = Infinity;
  #reached = null;

  handle = (n) => {
    this.handled += 1;
    if (n >= this.#seen.length) {
      const more = new Uint8Array(Math.max(n + 1, this.#seen.length * 2));
      more.set(this.#seen);
      this.#seen = more;
    }
    if (this.#seen[n]) return;
    this.#seen[n] = 1;
    this.distinct += 1;
    if (this.distinct >= this.#goal) this.#reached();
  };

  reaches(goal) {
    return new Promise((resolve) => {
      this.#goal = goal;
      this.#reached = resolve;
      if (this.distinct >= goal) resolve();
    });
  }
}

function numbers(from, count) {
  return Array.from({ length: count }, (_, index) => from + index);
}

async function enqueueInBatches(peer, from, jobs, batch = BATCH) {
  for (let done = 0; done < jobs; done += batch) {
    await peer.enqueueMany(numbers(from + done, Math.min(batch, jobs - done)));
  }
}

/** Each caller makes one call after the other. */
async function enqueueByCallers(peer, callers, jobs) {
  let next = 0;
  const caller = async () => {
    while (next < jobs) await peer.enqueueOne(next++);
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

/** Waits until the peer's tables say that nothing is left to do. */
async function nothingLeft(peer) {
  for (;;) {
    const left = await peer.left();
    if (left === 0) return left;
    await sleep(2);
  }
}

function expect(what, found, wanted) {
  if (found !== wanted) throw new Error(`${what}: the tables say ${found}, expected ${wanted}`);
}

const SCENARIOS = {
  async drain(peer, { jobs }) {
    const enqueueing = performance.now();
    await enqueueInBatches(peer, 0, jobs);
    const enqueue_seconds = seconds(enqueueing);
    const enqueued = await peer.left();
    expect("enqueued", enqueued, jobs);
    const tally = new Tally();
    const started = await go(peer, { enqueued, enqueue_seconds });
    await peer.work(tally.handle);
    await tally.reaches(jobs);
    const left = await nothingLeft(peer);
    const took = seconds(started);
    const kept = await peer.kept();
    return { handled: tally.handled, distinct: tally.distinct, left, kept, seconds: took };
  },

  async enqueue(peer, { mode, callers = 1, batch = BATCH, jobs }) {
    if (mode !== "single" && mode !== "batch") throw new Error(`mode is "single" or "batch", not ${mode}`);
    const single = mode === "single";
    const warmUp = single ? Math.max(WARM_UP, callers * WARM_UP_EACH) : WARM_UP;
    if (single) await enqueueByCallers(peer, callers, warmUp);
    else await enqueueInBatches(peer, 0, warmUp, 1);
    expect("warm-up", await peer.left(), warmUp);
    const started = await go(peer, {});
    if (single) await enqueueByCallers(peer, callers, jobs);
    else await enqueueInBatches(peer, 0, jobs, batch);
    const took = seconds(started);
    const stored = (await peer.left()) - warmUp;
    expect("stored", stored, jobs);
    return { enqueued: jobs, stored, seconds: took };
  },

  async latency(peer, { probes, background_per_second = 0 }) {
    const background = new Tally();
    let answer = null;
    // A probe has a number below zero.
    await peer.work((n) => (n < 0 ? answer?.(performance.now()) : background.handle(n)));
    const probe = async (n) => {
      const start = new Promise((resolve) => (answer = resolve));
      const before = performance.now();
      await peer.enqueueOne(-1 - n);
      return (await start) - before;
    };
    for (let n = 0; n < 3; n += 1) await probe(n);
    await go(peer, {});
    const producer = new BackgroundProducer(peer, background_per_second);
    const ms = [];
    for (let n = 0; n < probes; n += 1) {
      await sleep(30 + ((53 * n) % 140));
      ms.push(await probe(n));
    }
    const produced = await producer.stop();
    // Where that is not enough, the counts say so.
    const patience = sleep(DRAIN_PATIENCE_MS, undefined, { ref: false });
    await Promise.race([background.reaches(produced).then(() => nothingLeft(peer)), patience]);
    const [left, kept] = [await peer.left(), await peer.kept()];
    return { ms, background_handled: background.handled, background_enqueued: produced, left, kept };
  },

  async sustained(peer, { seconds: time, window = WINDOW }) {
    const tally = new Tally();
    const batch = Math.max(1, Math.min(BATCH, Math.floor(window / 4)));
    const started = await go(peer, {});
    const over = () => seconds(started) >= time;
    let produced = 0;
    const depths = [];
    let inTime = null;
    // What comes after, the tail and its counts, belongs to neither.
    const lookAtEnd = () => (inTime ??= { handled_in_time: tally.handled, seconds: seconds(started) });
    const look = setInterval(() => depths.length < time && depths.push(produced - tally.handled), 1000);
    setTimeout(lookAtEnd, time * 1000);
    await peer.work(tally.handle);
    while (!over()) {
      if (produced - tally.handled + batch > window) {
        await sleep(1);
        continue;
      }
      await peer.enqueueMany(numbers(produced, batch));
      produced += batch;
    }
    clearInterval(look);
    if (depths.length < time) depths.push(produced - tally.handled);
    lookAtEnd();
    await tally.reaches(produced);
    const left = await nothingLeft(peer);
    const { handled, distinct } = tally;
    return { ...inTime, produced, handled, distinct, left, depths };
  },

  async slots(peer, { schedules }) {
    await go(peer, {});
    const minute = 60_000;
    const slot = Math.ceil((Date.now() + SLOT_MARGIN_MS) / minute) * minute;
    const ms = new Map();
    let all;
    const everyone = new Promise((resolve) => (all = resolve));
    await peer.workOnSchedules(schedules, new Date(slot), (n) => {
      if (!ms.has(n)) ms.set(n, Date.now() - slot);
      if (ms.size === schedules) all();
    });
    const giveUp = sleep(slot + SLOT_PATIENCE_MS - Date.now(), undefined, { ref: false });
    await Promise.race([everyone, giveUp]);
    return { ms: [...ms.values()], missed: schedules - ms.size };
  },
};

/** Enqueues small batches every 10 ms, as many as the rate has come to owe. */
class BackgroundProducer {
  #stopped = false;
  #running;

  constructor(peer, perSecond) {
    this.#running = perSecond > 0 ? this.#run(peer, perSecond) : Promise.resolve(0);
  }

  async #run(peer, perSecond) {
    const started = performance.now();
    let produced = 0;
    while (!this.#stopped) {
      const owed = Math.min(BATCH, Math.floor(seconds(started) * perSecond) - produced);
      if (owed > 0) {
        await peer.enqueueMany(numbers(produced, owed));
        produced += owed;
      }
      await sleep(10);
    }
    return produced;
  }

  stop() {
    this.#stopped = true;
    return this.#running;
  }
}
