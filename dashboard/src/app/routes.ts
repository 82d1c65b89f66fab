// Which page an address shows; each page is loaded when it is first needed.
import type { Component } from 'svelte';

export type PageComponent = Component<{ params: Record<string, string> }>;

/** Address, file in `pages/`, and the name in the menu. A part that begins with `:` is a parameter. */
const ROUTES: [address: string, page: string][] = [
  ['', 'Overview'],
  ['schedules', 'Schedules'],
  ['schedules/:key', 'Schedule'],
  ['schedules/:key/edit', 'ScheduleEdit'],
  ['new/schedule', 'ScheduleNew'],
  ['jobs', 'Jobs'],
  ['jobs/:id', 'Job'],
  ['flows', 'Flows'],
  ['flows/:name', 'Flow'],
  ['queues', 'Queues'],
  ['queues/:name', 'Queue'],
  ['nodes', 'Nodes'],
  ['grants', 'Grants'],
  ['notifications', 'Notifications'],
  // Messages lead here.
  ['alerts/:id', 'Notifications'],
  ['tokens', 'Tokens'],
  ['audit', 'Audit'],
  ['settings', 'Settings'],
];

export interface MenuItem {
  path: string;
  name: string;
  /** Who sees it. */
  role?: 'admin';
}

export const MENU: MenuItem[][] = [
  [
    { path: '', name: 'Overview' },
    { path: 'schedules', name: 'Schedules' },
    { path: 'jobs', name: 'Jobs' },
    { path: 'flows', name: 'Flows' },
    { path: 'queues', name: 'Queues' },
    { path: 'nodes', name: 'Nodes' },
  ],
  [
    { path: 'grants', name: 'Grants' },
    { path: 'notifications', name: 'Notifications' },
    { path: 'tokens', name: 'Tokens', role: 'admin' },
    { path: 'audit', name: 'Audit', role: 'admin' },
    { path: 'settings', name: 'Settings' },
  ],
];

const files = import.meta.glob<{ default: PageComponent }>('../pages/*.svelte');

export interface Match {
  page: string;
  params: Record<string, string>;
}

/** The page of an address; `null` when there is none. */
export function match(parts: string[]): Match | null {
  for (const [address, page] of ROUTES) {
    const names = address === '' ? [] : address.split('/');
    if (names.length !== parts.length) continue;
    const fits = names.every((name, at) => name.startsWith(':') || name === parts[at]);
    if (!fits) continue;
    const pairs = names.flatMap((name, at) => (name.startsWith(':') ? [[name.slice(1), parts[at] ?? '']] : []));
    return { page, params: Object.fromEntries(pairs) as Record<string, string> };
  }
  return null;
}

export async function load(page: string): Promise<PageComponent> {
  const file = files[`../pages/${page}.svelte`];
  if (!file) throw new Error(`no page ${page}`);
  return (await file()).default;
}
