"""The contestant huey, on SQLite."""

import importlib.metadata

import huey

from contestant import main

ABOUT = {
    "name": "huey",
    "version": importlib.metadata.version("huey"),
    "language": "Python",
    "stores": ["sqlite"],
    "keeps": "no",
    "default": "one worker thread, WAL, synchronous FULL",
    "best": "one worker thread, WAL, synchronous FULL, cache of 64 MB, polls every 1 ms without back-off",
    "scenarios": ["drain", "enqueue", "latency", "sustained"],
    "jobs_default": 5_000,
    "jobs_best": 5_000,
    "window_default": 4_000,
    "window_best": 4_000,
}


class Peer:
    """huey's calls are blocking ones on one connection with a lock, so that they gain nothing from more threads."""

    def __init__(self, request):
        self.best = request["settings"] == "best"
        settings = {"cache_mb": 64} if self.best else {}
        # What SQLite does unless told otherwise, said here so that no build of it decides.
        settings["fsync"] = True
        self.huey = huey.SqliteHuey(filename=request["url"].removeprefix("sqlite:"), **settings)
        self.task = self.huey.task()(self.noop)

    def noop(self, n):
        self.handle(n)

    async def enqueue_one(self, n):
        self.task(n)

    async def enqueue_many(self, numbers):
        # There is no call for many at once; `map` does the same one by one.
        for n in numbers:
            self.task(n)

    async def work(self, handle):
        self.handle = handle
        settings = {"initial_delay": 0.001, "max_delay": 0.001, "backoff": 1.0} if self.best else {}
        self.huey.create_consumer(periodic=False, **settings).start()

    async def left(self):
        return self.huey.storage.queue_size()

    async def kept(self):
        # A result of None is not stored, and a task is deleted when it is taken.
        return self.huey.storage.result_store_size()

    async def durability(self):
        # The worker's thread makes its connection by the same call.
        names = ("journal_mode", "synchronous")
        return {name: self.huey.storage.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


async def open_peer(request):
    return Peer(request)


if __name__ == "__main__":
    main(ABOUT, open_peer)
