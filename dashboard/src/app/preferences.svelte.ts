// What each person chose for this browser: theme, time zone, columns, keys; kept where the browser lets us.

export type Theme = 'system' | 'light' | 'dark';
export type ZoneChoice = 'local' | 'utc' | 'schedule';

const KEY = 'punctual';

interface Kept {
  theme: Theme;
  zone: ZoneChoice;
  columns: Record<string, string[]>;
  singleKeys: boolean;
}

function stored(): Partial<Kept> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return found && typeof found === 'object' ? (found as Partial<Kept>) : {};
  } catch {
    // A browser that keeps nothing still shows everything.
    return {};
  }
}

class Preferences {
  #theme = $state<Theme>('system');
  #zone = $state<ZoneChoice>('local');
  #columns = $state<Record<string, string[]>>({});
  #singleKeys = $state(true);

  constructor() {
    const { theme, zone, columns, singleKeys } = stored();
    if (theme === 'light' || theme === 'dark') this.#theme = theme;
    if (zone === 'utc' || zone === 'schedule') this.#zone = zone;
    if (columns && typeof columns === 'object') this.#columns = columns;
    if (singleKeys === false) this.#singleKeys = false;
  }

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    this.#theme = theme;
    this.apply();
    this.#keep();
  }

  get zone(): ZoneChoice {
    return this.#zone;
  }

  set zone(zone: ZoneChoice) {
    this.#zone = zone;
    this.#keep();
  }

  /** Whether keys do something by themselves: who speaks to the computer, or hits keys by chance, has them off. */
  get singleKeys(): boolean {
    return this.#singleKeys;
  }

  set singleKeys(on: boolean) {
    this.#singleKeys = on;
    this.#keep();
  }

  /** The columns that somebody wants to see of a table, or those it usually has. */
  columns(table: string, usual: string[]): string[] {
    return this.#columns[table] ?? usual;
  }

  setColumns(table: string, columns: string[]): void {
    this.#columns[table] = columns;
    this.#keep();
  }

  /** Makes the theme hold for the page. */
  apply(): void {
    document.documentElement.dataset.theme = this.#theme;
  }

  #keep(): void {
    const kept: Kept = {
      theme: this.#theme,
      zone: this.#zone,
      columns: this.#columns,
      singleKeys: this.#singleKeys,
    };
    try {
      localStorage.setItem(KEY, JSON.stringify(kept));
    } catch {
      // It holds until the page is closed.
    }
  }
}

export const preferences = new Preferences();
