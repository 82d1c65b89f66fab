// The contestant pg-boss, on PostgreSQL.

import pg from "pg";
import { PgBoss } from "pg-boss";
import { main, versionOf } from "./contestant.mjs";

const QUEUE = "noop";

const ABOUT = {
  name: "pg-boss",
  version: versionOf("pg-boss"),
  language: "JavaScript",
  stores: ["postgres"],
  keeps: "yes",
  default: "one worker, one job per fetch, polls every 2 s",
  best: "4 workers with batches of 1000, no pause while batches are full, woken by NOTIFY",
  scenarios: ["drain", "enqueue", "latency", "sustained", "slots"],
  jobs_default: 2,
  jobs_best: 150_000,
  window_default: 2,
};

const BEST_WORK = {
  batchSize: 1000,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
  notifyPollingIntervalSeconds: 0.5,
};

async function open({ url, settings, scenario, callers = 1 }) {
  const best = settings === "best";
  const boss = new PgBoss({
    connectionString: url,
    max: Math.max(10, callers),
    schedule: scenario === "slots",
    useListenNotify: best,
  });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE, { notify: best });
  const looks = new pg.Pool({ connectionString: url, max: 1 });
  const count = async (condition) => {
    const sql = `SELECT count(*) FROM pgboss.job WHERE name = $1 AND state ${condition}`;
    return Number((await looks.query(sql, [QUEUE])).rows[0].count);
  };
  const work = (handle) =>
    boss.work(QUEUE, best ? BEST_WORK : {}, async (jobs) => {
      for (const job of jobs) handle(job.data.n);
    });
  return {
    enqueueOne: (n) => boss.send(QUEUE, { n }),
    enqueueMany: (all) => boss.insert(QUEUE, all.map((n) => ({ data: { n } }))),
    work,
    async workOnSchedules(schedules, slot, handle) {
      const cron = `${slot.getUTCMinutes()} ${slot.getUTCHours()} * * *`;
      for (let n = 0; n < schedules; n += 1) await boss.schedule(QUEUE, cron, { n }, { key: `schedule-${n}` });
      await work(handle);
    },
    left: () => count("< 'completed'"),
    kept: () => count("= 'completed'"),
    durability: async () => (await boss.getDb().executeSql("SHOW synchronous_commit", [])).rows[0],
  };
}

await main(ABOUT, open);
