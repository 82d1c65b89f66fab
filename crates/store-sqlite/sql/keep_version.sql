-- Keeps what a schedule was, before it is edited.
INSERT INTO punctual_schedule_versions (schedule_id, version, replaced_at, definition)
SELECT id, version, ?2, json_object(
  'name', name, 'description', description, 'labels', json(labels), 'cron', cron, 'every_us', every_us, 'at', at,
  'timezone', timezone, 'dst_gap', dst_gap, 'dst_overlap', dst_overlap, 'starts_at', starts_at, 'ends_at', ends_at,
  'calendar', calendar, 'target', json(target), 'input', json(input), 'template_id', hex(template_id), 'queue', queue,
  'priority', priority, 'serial', serial, 'retry', json(retry), 'timeout_us', timeout_us, 'missed', json(missed),
  'overlap', overlap, 'max_concurrent_runs', max_concurrent_runs, 'jitter_us', jitter_us, 'depends_on', hex(depends_on),
  'depends_within_us', depends_within_us, 'grant_id', hex(grant_id), 'owner', owner, 'source', source,
  'burst_allowed', burst_allowed, 'pause_after_failures', pause_after_failures,
  'tags', json(tags))
FROM punctual_schedules WHERE id = ?1
