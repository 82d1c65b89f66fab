-- Jobs that are all to run at once, and are no schedule's: nothing else becomes of them. Nodes are told in the same
-- statement if one has begun to wait since the last time (`waits`).
SELECT at, (
  SELECT CASE WHEN setval('punctual_internal.told', last_value) > 0 THEN pg_notify('punctual_wake', '') END
  FROM punctual_internal.waits WHERE $2 AND last_value > (SELECT last_value FROM punctual_internal.told)
)
FROM clock WHERE NOT EXISTS (SELECT 1 FROM kinds WHERE lane_id IS NULL)
