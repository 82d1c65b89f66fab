// The contestant graphile-worker, on PostgreSQL.

import { Logger, makeWorkerUtils, parseCronItems, run } from "graphile-worker";
import pg from "pg";
import { isAboutLatency, main, versionOf } from "./contestant.mjs";

const ABOUT = {
  name: "graphile-worker",
  version: versionOf("graphile-worker"),
  language: "JavaScript",
  stores: ["postgres"],
  keeps: "no",
  default: "concurrency 1, one job per fetch",
  best: "concurrency 100, local queue of 8000, completions batched at once (latency: 10, no local queue)",
  scenarios: ["drain", "enqueue", "latency", "sustained", "slots"],
  jobs_default: 3_000,
  jobs_best: 250_000,
  window_default: 2_000,
};

const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(message);
});

/** The worker's options by what is asked: a local queue buys throughput, and costs latency. */
function workerOptions(request) {
  if (request.settings === "default") return {};
  if (isAboutLatency(request)) {
    return { concurrentJobs: 10, maxPoolSize: 12, completeJobBatchDelay: 0 };
  }
  return {
    concurrentJobs: 100,
    maxPoolSize: 20,
    localQueue: { size: 8000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  };
}

async function open(request) {
  const producers = new pg.Pool({ connectionString: request.url, max: Math.max(4, request.callers ?? 1) });
  const utils = await makeWorkerUtils({ pgPool: producers, logger });
  await utils.migrate();
  const left = async () => {
    const { rows } = await producers.query("SELECT count(*) FROM graphile_worker._private_jobs");
    return Number(rows[0].count);
  };
  const work = (handle, more = {}) =>
    run({
      preset: { worker: { connectionString: request.url, ...workerOptions(request) } },
      logger,
      noHandleSignals: true,
      taskList: { noop: async ({ n }) => handle(n) },
      ...more,
    });
  return {
    enqueueOne: (n) => utils.addJob("noop", { n }),
    enqueueMany: (all) => utils.addJobs(all.map((n) => ({ identifier: "noop", payload: { n } }))),
    work,
    workOnSchedules: (schedules, slot, handle) => work(handle, { parsedCronItems: crontab(schedules, slot) }),
    left,
    // A finished job's row is deleted: what is kept would be in the same table.
    kept: left,
    durability: () =>
      utils.withPgClient(async (client) => (await client.query("SHOW synchronous_commit")).rows[0]),
  };
}

function crontab(schedules, slot) {
  return parseCronItems(
    Array.from({ length: schedules }, (_, n) => ({
      task: "noop",
      match: `${slot.getUTCMinutes()} ${slot.getUTCHours()} * * *`,
      identifier: `schedule-${n}`,
      payload: { n },
      options: { backfillPeriod: 0 },
    })),
  );
}

await main(ABOUT, open);
