-- The jobs of one schedule, latest first.
SELECT id FROM punctual_jobs WHERE schedule_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
