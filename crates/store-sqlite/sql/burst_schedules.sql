-- The due schedules that no cap on fires holds back; asked for under a cap only.
SELECT r.* FROM punctual_schedules AS s
CROSS JOIN punctual_schedule_rows AS r ON r.schedule_id = s.id
WHERE s.burst_allowed = 1 AND s.deleted_at IS NULL AND r.enabled = 1 AND r.next_run_at IS NOT NULL AND r.next_run_at <= ?1
ORDER BY s.id
LIMIT ?2
