"""What the contestants for Python share: the protocol, and the scenarios over what each peer can do."""

import asyncio
import json
import math
import os
import sys
import threading
import time
import traceback

BATCH = 1000
WINDOW = 20_000
# Calls before what counts, as many as Punctual makes; and at least so many by each caller.
WARM_UP = 50
WARM_UP_EACH = 2
SLOT_MARGIN = 15
SLOT_PATIENCE = 30
DRAIN_PATIENCE = 60


def main(about, open_peer):
    """Plays the scenario that the one argument asks for.

    `about` is the peer's description. `open_peer(request)` migrates an empty database and answers with what the peer
    can do, all of it coroutines: `enqueue_one(n)`, `enqueue_many(numbers)`, `work(handle)` (returns when the worker
    runs; `handle(n)` is to be called at the start of each job, on any thread), `left()` and `kept()` (queries on the
    peer's own tables), `durability()` (what the database says on a connection of the peer's own, for `ready`), and, for
    `slots`, `work_on_schedules(schedules, slot, handle)`.
    """
    # Whatever a library prints must not get between the lines of the protocol.
    lines, sys.stdout = sys.stdout, sys.stderr
    say = lambda line: print(json.dumps(line), file=lines, flush=True)
    try:
        asyncio.run(play(about, open_peer, parse(sys.argv), say))
    except Exception as error:
        say({"event": "failed", "why": str(error) or repr(error)})
        traceback.print_exc()
        end(1)


def end(code):
    """Ends the process at once: a worker may still be running, and need not be stopped in good order."""
    sys.stderr.flush()
    os._exit(code)


def parse(argv):
    if len(argv) != 2:
        raise ValueError("give one argument: the request, a JSON object (see bench/peers/README.md)")
    try:
        return json.loads(argv[1])
    except ValueError as error:
        raise ValueError(f"the request is not JSON: {error}") from None


async def play(about, open_peer, request, say):
    name = request.get("scenario")
    if name == "about":
        return say(about)
    if name not in about["scenarios"]:
        raise ValueError(f"{about['name']} has no scenario {name!r}: it has {', '.join(about['scenarios'])}")
    if request.get("settings") not in ("default", "best"):
        raise ValueError(f'settings are "default" or "best", not {request.get("settings")!r}')
    starter = Starter(say)
    peer = await open_peer(request)
    await starter.done(await SCENARIOS[name](peer, request, starter))


class Starter:
    """Listens to whoever asked: waits for the word to go, and ends the process once stdin is closed."""

    def __init__(self, say):
        self.say = say
        # Whether all is said. A stdin that is closed before means that whoever asked is gone.
        self.is_done = False
        self.loop = asyncio.get_running_loop()
        self.word = asyncio.Event()
        # On a thread of its own, so that the end is seen however busy the peer keeps the loop.
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in sys.stdin:
            if line.strip() == "go":
                self.loop.call_soon_threadsafe(self.word.set)
        if self.is_done:
            end(0)
        try:
            self.say({"event": "failed", "why": "stdin was closed before all was done"})
        finally:
            end(1)

    async def go(self, peer, **ready):
        self.say({"event": "ready", **ready, **await peer.durability()})
        await self.word.wait()
        return time.perf_counter()

    async def done(self, done):
        """Says what came of it, and stays until whoever asked has looked at this process's memory."""
        self.is_done = True
        self.say({"event": "done", **done})
        await asyncio.Event().wait()


class Tally:
    """Counts the calls of the handler, and how many different jobs they were for."""

    def __init__(self):
        self.handled = self.distinct = 0
        self.seen = bytearray()
        self.goal = math.inf
        self.lock = threading.Lock()
        self.loop = asyncio.get_running_loop()
        self.reached = asyncio.Event()

    def handle(self, n):
        with self.lock:
            self.handled += 1
            if n >= len(self.seen):
                self.seen.extend(bytes(max(n + 1, 2 * len(self.seen)) - len(self.seen)))
            self.distinct += not self.seen[n]
            self.seen[n] = 1
            if self.distinct < self.goal:
                return
        self.loop.call_soon_threadsafe(self.reached.set)

    async def reaches(self, goal):
        with self.lock:
            self.goal = goal
            if self.distinct >= goal:
                return
        await self.reached.wait()


async def enqueue_in_batches(peer, jobs, batch=BATCH):
    for done in range(0, jobs, batch):
        await peer.enqueue_many(range(done, min(done + batch, jobs)))


async def enqueue_by_callers(peer, callers, jobs):
    """Each caller makes one call after the other."""
    numbers = iter(range(jobs))

    async def caller():
        for n in numbers:
            await peer.enqueue_one(n)

    await asyncio.gather(*(caller() for _ in range(callers)))


async def nothing_left(peer):
    """Waits until the peer's tables say that nothing is left to do."""
    while left := await peer.left():
        await asyncio.sleep(0.002)
    return left


def expect(what, found, wanted):
    if found != wanted:
        raise ValueError(f"{what}: the tables say {found}, expected {wanted}")


def since(started):
    return time.perf_counter() - started


async def drain(peer, request, starter):
    jobs = request["jobs"]
    enqueueing = time.perf_counter()
    await enqueue_in_batches(peer, jobs)
    enqueue_seconds = since(enqueueing)
    enqueued = await peer.left()
    expect("enqueued", enqueued, jobs)
    tally = Tally()
    started = await starter.go(peer, enqueued=enqueued, enqueue_seconds=enqueue_seconds)
    await peer.work(tally.handle)
    await tally.reaches(jobs)
    left = await nothing_left(peer)
    seconds = since(started)
    return {
        "handled": tally.handled,
        "distinct": tally.distinct,
        "left": left,
        "kept": await peer.kept(),
        "seconds": seconds,
    }


async def enqueue(peer, request, starter):
    jobs, callers, mode = request["jobs"], request.get("callers", 1), request.get("mode")
    if mode not in ("single", "batch"):
        raise ValueError(f'mode is "single" or "batch", not {mode!r}')
    single = mode == "single"
    warm_up = max(WARM_UP, callers * WARM_UP_EACH) if single else WARM_UP
    if single:
        await enqueue_by_callers(peer, callers, warm_up)
    else:
        await enqueue_in_batches(peer, warm_up, 1)
    expect("warm-up", await peer.left(), warm_up)
    started = await starter.go(peer)
    if single:
        await enqueue_by_callers(peer, callers, jobs)
    else:
        await enqueue_in_batches(peer, jobs, request.get("batch", BATCH))
    seconds = since(started)
    stored = await peer.left() - warm_up
    expect("stored", stored, jobs)
    return {"enqueued": jobs, "stored": stored, "seconds": seconds}


async def latency(peer, request, starter):
    background = Tally()
    loop = asyncio.get_running_loop()
    starts = asyncio.Queue()

    def handle(n):
        # A probe has a number below zero.
        if n < 0:
            loop.call_soon_threadsafe(starts.put_nowait, time.perf_counter())
        else:
            background.handle(n)

    async def probe(n):
        before = time.perf_counter()
        await peer.enqueue_one(-1 - n)
        return (await starts.get() - before) * 1000

    await peer.work(handle)
    for n in range(3):
        await probe(n)
    await starter.go(peer)
    stop = asyncio.Event()
    producer = asyncio.create_task(produce(peer, request.get("background_per_second", 0), stop))
    ms = []
    for n in range(request["probes"]):
        await asyncio.sleep((30 + 53 * n % 140) / 1000)
        ms.append(await probe(n))
    stop.set()
    produced = await producer

    async def rest():
        await background.reaches(produced)
        await nothing_left(peer)

    try:
        await asyncio.wait_for(rest(), DRAIN_PATIENCE)
    except TimeoutError:
        pass  # The counts say so.
    return {
        "ms": ms,
        "background_handled": background.handled,
        "background_enqueued": produced,
        "left": await peer.left(),
        "kept": await peer.kept(),
    }


async def produce(peer, per_second, stop):
    """Enqueues small batches every 10 ms, as many as the rate has come to owe."""
    started, produced = time.perf_counter(), 0
    while not stop.is_set() and per_second > 0:
        owed = min(BATCH, int(since(started) * per_second) - produced)
        if owed > 0:
            await peer.enqueue_many(range(produced, produced + owed))
            produced += owed
        await asyncio.sleep(0.01)
    return produced


async def sustained(peer, request, starter):
    limit, window = request["seconds"], request.get("window", WINDOW)
    batch = max(1, min(BATCH, window // 4))
    tally = Tally()
    depths, in_time, produced = [], {}, 0
    started = await starter.go(peer)
    await peer.work(tally.handle)

    async def look():
        for second in range(1, limit + 1):
            await asyncio.sleep(max(0, second - since(started)))
            depths.append(produced - tally.handled)
        # What comes after, the tail and its counts, belongs to neither.
        in_time.update(handled_in_time=tally.handled, seconds=since(started))

    looking = asyncio.create_task(look())
    while since(started) < limit:
        if produced - tally.handled + batch > window:
            await asyncio.sleep(0.001)
            continue
        await peer.enqueue_many(range(produced, produced + batch))
        produced += batch
    await looking
    await tally.reaches(produced)
    left = await nothing_left(peer)
    return {
        **in_time,
        "produced": produced,
        "handled": tally.handled,
        "distinct": tally.distinct,
        "left": left,
        "depths": depths,
    }


async def slots(peer, request, starter):
    schedules = request["schedules"]
    await starter.go(peer)
    slot = math.ceil((time.time() + SLOT_MARGIN) / 60) * 60
    ms = {}
    loop = asyncio.get_running_loop()
    everyone = asyncio.Event()

    def handle(n):
        ms.setdefault(n, (time.time() - slot) * 1000)
        if len(ms) == schedules:
            loop.call_soon_threadsafe(everyone.set)

    await peer.work_on_schedules(schedules, slot, handle)
    try:
        await asyncio.wait_for(everyone.wait(), slot + SLOT_PATIENCE - time.time())
    except TimeoutError:
        pass  # The missed ones are counted.
    return {"ms": list(ms.values()), "missed": schedules - len(ms)}


SCENARIOS = {"drain": drain, "enqueue": enqueue, "latency": latency, "sustained": sustained, "slots": slots}
