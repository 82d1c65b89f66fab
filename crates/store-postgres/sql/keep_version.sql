-- Keeps what a schedule was, before it is edited.
INSERT INTO punctual_internal.schedule_versions (schedule_id, version, replaced_at, definition)
SELECT id, version, $2, json_build_object(
  'name', name, 'description', description, 'labels', labels, 'cron', cron, 'every_us', every_us, 'at', at,
  'timezone', timezone, 'dst_gap', dst_gap, 'dst_overlap', dst_overlap, 'starts_at', starts_at, 'ends_at', ends_at,
  'calendar', calendar, 'target', target, 'input', input, 'template_id', template_id, 'queue', queue,
  'priority', priority, 'serial', serial, 'retry', retry, 'timeout_us', timeout_us, 'missed', missed,
  'overlap', overlap, 'max_concurrent_runs', max_concurrent_runs, 'jitter_us', jitter_us, 'depends_on', depends_on,
  'depends_within_us', depends_within_us, 'grant_id', grant_id, 'owner', owner, 'source', source,
  'burst_allowed', burst_allowed, 'pause_after_failures', pause_after_failures,
  'tags', tags)
FROM punctual_internal.schedules WHERE id = $1
