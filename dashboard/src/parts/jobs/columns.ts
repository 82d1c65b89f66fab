// The columns that a table of jobs may have.
import { preferences } from '../../app/preferences.svelte';

export const COLUMNS = {
  state: 'State',
  what: 'What',
  queue: 'Queue',
  input: 'Input',
  attempt: 'Attempt',
  created: 'Created',
  begins: 'Scheduled / started',
  wait: 'Waited',
  duration: 'Duration',
  node: 'Node',
  tags: 'Tags',
  schedule: 'Schedule',
  trigger: 'Made by',
} as const;

export type Column = keyof typeof COLUMNS;

const USUAL: Column[] = ['state', 'what', 'queue', 'input', 'attempt', 'created', 'wait', 'duration', 'schedule'];

export function shownColumns(): Column[] {
  const chosen = preferences.columns('jobs', USUAL);
  return (Object.keys(COLUMNS) as Column[]).filter((column) => chosen.includes(column));
}

export function toggleColumn(column: Column): void {
  const shown = shownColumns();
  preferences.setColumns(
    'jobs',
    shown.includes(column) ? shown.filter((other) => other !== column) : [...shown, column],
  );
}

export function usualColumns(): void {
  preferences.setColumns('jobs', USUAL);
}
