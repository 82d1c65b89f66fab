-- One lane in queue order, jobs that may be claimed only. SQLite has one writer, so no row is locked; PostgreSQL
-- takes all lanes in one statement with SKIP LOCKED instead.
SELECT priority, position, created_at, job_id FROM punctual_queue
WHERE lane_id = ?1 AND ready = 1
ORDER BY priority DESC, position, created_at, job_id
