// Which time zone a time is shown in.
import { localZone } from '../text/time';
import { preferences } from './preferences.svelte';

/** The zone by choice: the viewer's, UTC, or that of the schedule the time belongs to. */
export function zoneFor(schedule?: string | null): string {
  if (preferences.zone === 'utc') return 'UTC';
  if (preferences.zone === 'schedule' && schedule) return schedule;
  return localZone();
}
