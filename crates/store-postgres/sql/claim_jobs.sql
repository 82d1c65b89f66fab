-- Hands out jobs in queue order: out of `queue` and into `running`, in one statement. `open_lanes` locks what must stay
-- as it is meanwhile.
--
-- Differs from SQLite, which has one writer and merges the lanes in the program: with one lane, its first jobs that
-- nobody else has locked are taken; with several, a look at the heads of all, unlocked, says how many each lane gives,
-- and then each gives its first unlocked ones. So two nodes that claim at once never wait for each other, and never
-- get less than there is. The array keeps the planner from joining by a sequential scan, and OFFSET 0 keeps the
-- look-up of the definitions what it is. Where there are limits nothing is taken: `claim_within_limits` does that.
WITH clock AS MATERIALIZED (
  SELECT coalesce($1, now()) AS at
), open AS MATERIALIZED (
  SELECT id FROM clock CROSS JOIN punctual_internal.open_lanes(clock.at, $2::text[], $3::text[], $4, $5) AS o (id)
), quotas AS MATERIALIZED (
  SELECT id AS lane_id, $7::bigint AS jobs FROM open WHERE (SELECT count(*) FROM open) = 1
  UNION ALL
  SELECT lane_id, count(*) FROM (
    SELECT h.lane_id FROM open
    CROSS JOIN LATERAL (
      SELECT lane_id, priority, position, created_at, job_id FROM punctual_internal.queue
      WHERE lane_id = open.id AND ready
      ORDER BY priority DESC, position, created_at, job_id
      LIMIT $7
    ) AS h
    WHERE (SELECT count(*) FROM open) > 1
    ORDER BY h.priority DESC, h.position, h.created_at, h.job_id
    LIMIT $7
  ) AS heads
  GROUP BY lane_id
), lease AS MATERIALIZED (
  SELECT NOT EXISTS (SELECT 1 FROM open WHERE id IS NULL) AS holds, EXISTS (SELECT 1 FROM open WHERE id = 0) AS limited,
         NULL::bigint AS more_in_us
