-- How the runs since an instant ended, the latest ones, up to a bound.
SELECT outcome, count(*) FROM (
  SELECT outcome FROM punctual_internal.runs WHERE finished_at >= $1 ORDER BY finished_at DESC, job_id DESC LIMIT $2
) AS r GROUP BY outcome
