-- The last runs of some schedules, each from the index of its jobs: the latest jobs of a schedule, of these the latest that
-- have ended, and no more of an error than its beginning. Stopped by LIMIT inside of each schedule; SQLite, which has no
-- LATERAL, finds the ids first.
SELECT s.id, e.id, e.slot_at, e.trigger, e.started_at, e.finished_at, e.outcome, e.error_code, left(e.error, 200)
FROM unnest($1::uuid[]) WITH ORDINALITY AS s (id, place)
CROSS JOIN LATERAL (
  SELECT j.id, j.slot_at, j.trigger, r.started_at, r.finished_at, r.outcome, r.error_code, r.error
  FROM (SELECT id, slot_at, trigger FROM punctual_internal.jobs WHERE schedule_id = s.id
        ORDER BY id DESC LIMIT $3) AS j
  CROSS JOIN LATERAL (SELECT * FROM punctual_internal.runs WHERE job_id = j.id OFFSET 0) AS r
  ORDER BY j.id DESC
  LIMIT $2
) AS e
ORDER BY s.place, e.id DESC
