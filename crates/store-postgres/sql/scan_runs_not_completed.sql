-- The ids that a list of runs with one bad outcome looks at, latest first. Each outcome is written out, unlike in SQLite:
-- of a parameter the planner must be told that it is not 'completed', and it takes that for a second condition that
-- hardly a row fulfils.
(SELECT job_id AS id FROM punctual_internal.runs WHERE $4::text = 'failed' AND outcome = 'failed' AND job_id < $1
 ORDER BY job_id DESC LIMIT $3 OFFSET $2)
UNION ALL
(SELECT job_id AS id FROM punctual_internal.runs WHERE $4::text = 'skipped' AND outcome = 'skipped' AND job_id < $1
 ORDER BY job_id DESC LIMIT $3 OFFSET $2)
UNION ALL
(SELECT job_id AS id FROM punctual_internal.runs WHERE $4::text = 'cancelled' AND outcome = 'cancelled' AND job_id < $1
 ORDER BY job_id DESC LIMIT $3 OFFSET $2)
