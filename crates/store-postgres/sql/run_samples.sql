-- The runs of a schedule whose jobs were made since an instant, latest made first.
SELECT j.id, j.slot_at, j.trigger, j.created_at, r.started_at, r.finished_at, r.outcome, r.final, r.node_id
FROM (SELECT id, slot_at, trigger, created_at FROM punctual_internal.jobs WHERE schedule_id = $1 AND id >= $2
      ORDER BY id DESC LIMIT $3) AS j
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.runs WHERE job_id = j.id OFFSET 0) AS r
ORDER BY j.id DESC
