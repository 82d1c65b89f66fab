-- The items of a step in their order, after an item.
SELECT item, value::text, job_id, outcome FROM punctual_internal.flow_items
WHERE flow_id = $1 AND step = $2 AND item > $3 ORDER BY item LIMIT $4
