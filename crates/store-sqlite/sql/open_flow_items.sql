-- The first items of a step that have not begun.
SELECT item, value FROM punctual_flow_items
WHERE flow_id = ?1 AND step = ?2 AND job_id IS NULL AND outcome IS NULL ORDER BY item LIMIT ?3
