-- The tables that every job goes through in which so many dead rows lie, the fullest first, if they may be vacuumed by
-- whoever asks.
--
-- It has no twin: in SQLite a row that is gone leaves nothing behind.
SELECT c.oid::regclass::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'punctual_internal' AND c.relname IN ('queue', 'running', 'delayed', 'schedule_state', 'schedule_live')
  AND pg_stat_get_dead_tuples(c.oid) >= $1 AND pg_has_role(c.relowner, 'USAGE')
ORDER BY pg_stat_get_dead_tuples(c.oid) DESC
