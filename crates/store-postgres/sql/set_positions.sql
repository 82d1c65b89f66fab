-- Renumbers a neighbourhood: its order stays, its gaps are new.
UPDATE punctual_internal.queue AS q SET position = w.position
FROM unnest($1::uuid[], $2::bigint[]) AS w (job_id, position)
WHERE q.job_id = w.job_id
