"""The contestant procrastinate, on PostgreSQL."""

import asyncio
import importlib.metadata
import time

import procrastinate

from contestant import main

ABOUT = {
    "name": "procrastinate",
    "version": importlib.metadata.version("procrastinate"),
    "language": "Python",
    "stores": ["postgres"],
    "keeps": "yes",
    "default": "concurrency 1, woken by NOTIFY",
    "best": "concurrency 30, pool of 32 connections, woken by NOTIFY",
    "scenarios": ["drain", "enqueue", "latency", "sustained", "slots"],
    "jobs_default": 500,
    "jobs_best": 1_000,
    "window_default": 400,
    "window_best": 800,
}

UNFINISHED = "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
FINISHED = "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status = 'succeeded'"


class Peer:
    def __init__(self, request):
        self.best = request["settings"] == "best"
        pool = {"min_size": 4, "max_size": max(32, request.get("callers", 1))} if self.best else {}
        self.connector = procrastinate.PsycopgConnector(conninfo=request["url"], **pool)
        self.app = procrastinate.App(connector=self.connector)
        self.task = self.app.task(name="noop")(self.noop)
        self.worker = None

    async def noop(self, n):
        self.handle(n)

    async def open(self):
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()
        return self

    async def enqueue_one(self, n):
        await self.task.defer_async(n=n)

    async def enqueue_many(self, numbers):
        await self.task.batch_defer_async(*({"n": n} for n in numbers))

    async def work(self, handle):
        self.handle = handle
        settings = {"concurrency": 30} if self.best else {}
        worker = self.app.run_worker_async(install_signal_handlers=False, **settings)
        self.worker = asyncio.create_task(worker)
        self.worker.add_done_callback(lambda worker: worker.cancelled() or worker.result())

    async def work_on_schedules(self, schedules, slot, handle):
        at = time.gmtime(slot)
        cron = f"{at.tm_min} {at.tm_hour} * * *"

        async def scheduled(timestamp, n):
            handle(n)

        task = self.app.task(name="scheduled")(scheduled)
        for n in range(schedules):
            self.app.periodic(cron=cron, periodic_id=f"schedule-{n}", task_kwargs={"n": n})(task)
        await self.work(handle)

    async def left(self):
        return (await self.connector.execute_query_one_async(UNFINISHED))["jobs"]

    async def kept(self):
        return (await self.connector.execute_query_one_async(FINISHED))["jobs"]

    async def durability(self):
        return await self.connector.execute_query_one_async("SHOW synchronous_commit")


async def open_peer(request):
    return await Peer(request).open()


if __name__ == "__main__":
    main(ABOUT, open_peer)
