-- What was decided about the slots of a schedule since an instant; how many rows say so; and of how many slots.
SELECT decision, reason, count(*), sum(count)::bigint FROM (
  SELECT decision, reason, count FROM punctual_internal.slots WHERE schedule_id = $1 AND slot_at >= $2
  ORDER BY slot_at DESC LIMIT $3
) AS s
GROUP BY decision, reason ORDER BY decision, reason
