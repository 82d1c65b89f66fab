-- How the runs that ended within a stretch of time ended, how long they waited since they could begin and how long they
-- took, in buckets of one length. `percentile_disc` gives nearest ranks, as the program has them; it ranks here, unlike in
-- SQLite, so that a few rows travel and not one for each run. Each job is looked up by itself: the time in its id leads to
-- one partition, and a plan made for few runs stays right for many.
SELECT place,
  count(*) FILTER (WHERE outcome = 'completed'), count(*) FILTER (WHERE outcome = 'failed'),
  count(*) FILTER (WHERE outcome = 'skipped'), count(*) FILTER (WHERE outcome = 'cancelled'),
  count(waited), percentile_disc(0.5) WITHIN GROUP (ORDER BY waited),
  percentile_disc(0.95) WITHIN GROUP (ORDER BY waited), max(waited),
  percentile_disc(0.5) WITHIN GROUP (ORDER BY took), percentile_disc(0.95) WITHIN GROUP (ORDER BY took), max(took)
FROM (
  SELECT floor(extract(epoch FROM r.finished_at - $1) * 1000000 / $3)::bigint AS place, r.outcome,
    CASE WHEN r.started_at IS NOT NULL THEN greatest(
      (extract(epoch FROM r.started_at - greatest(j.created_at, j.run_at)) * 1000000)::bigint, 0) END AS waited,
    (extract(epoch FROM r.finished_at - r.started_at) * 1000000)::bigint AS took
  FROM punctual_internal.runs AS r
  CROSS JOIN LATERAL (SELECT created_at, run_at FROM punctual_internal.jobs WHERE id = r.job_id OFFSET 0) AS j
  WHERE r.finished_at >= $1 AND r.finished_at < $2
) AS s
GROUP BY place
ORDER BY place
