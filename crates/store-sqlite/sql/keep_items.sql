-- The items of an earlier attempt: those that completed, and all of a step that is not run again, as they are; the others
-- as if they had not begun.
INSERT INTO punctual_flow_items (flow_id, step, item, value, job_id, outcome, error, output)
SELECT ?1, i.step, i.item, i.value, iif(k.kept, i.job_id, NULL), iif(k.kept, i.outcome, NULL),
       iif(k.kept, i.error, NULL), iif(k.kept, i.output, NULL)
FROM punctual_flow_items AS i
JOIN punctual_flow_steps AS s ON s.flow_id = i.flow_id AND s.step = i.step
JOIN (SELECT 0 AS kept UNION ALL SELECT 1) AS k ON k.kept = (coalesce(i.outcome, '') = 'completed' OR coalesce(s.outcome, '') = 'completed')
WHERE i.flow_id = ?2
