-- The items of an earlier attempt: those that completed, and all of a step that is not run again, as they are; the others
-- as if they had not begun.
INSERT INTO punctual_internal.flow_items (flow_id, step, item, value, job_id, outcome, error, output)
SELECT $1, i.step, i.item, i.value, CASE WHEN k.kept THEN i.job_id END, CASE WHEN k.kept THEN i.outcome END,
       CASE WHEN k.kept THEN i.error END, CASE WHEN k.kept THEN i.output END
FROM punctual_internal.flow_items AS i
JOIN punctual_internal.flow_steps AS s ON s.flow_id = i.flow_id AND s.step = i.step
CROSS JOIN LATERAL (
  SELECT coalesce(i.outcome, '') = 'completed' OR coalesce(s.outcome, '') = 'completed'
) AS k (kept)
WHERE i.flow_id = $2
