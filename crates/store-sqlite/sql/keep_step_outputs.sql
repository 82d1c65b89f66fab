-- What the steps of an earlier attempt returned that are not run again.
UPDATE punctual_flow_steps AS s SET output = e.output, started_at = e.started_at, ended_at = e.ended_at
FROM punctual_flow_steps AS e
WHERE s.flow_id = ?1 AND s.outcome IS NOT NULL AND e.flow_id = ?2 AND e.step = s.step
