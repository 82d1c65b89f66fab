// Which page is shown: the address bar is the only state, below whatever path the dashboard is served under.
import { part } from '../api/client';

interface Place {
  /** The parts of the path below the base, decoded. */
  parts: string[];
  query: URLSearchParams;
}

function basePath(): string {
  return new URL(document.baseURI).pathname;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function here(): Place {
  const path = location.pathname.startsWith(basePath()) ? location.pathname.slice(basePath().length) : '';
  return {
    parts: path
      .split('/')
      .filter((part) => part !== '')
      .map(decoded),
    query: new URLSearchParams(location.search),
  };
}

class Router {
  #place = $state.raw<Place>(here());

  constructor() {
    addEventListener('popstate', () => (this.#place = here()));
    document.addEventListener('click', (event) => this.#follow(event));
  }

  get parts(): string[] {
    return this.#place.parts;
  }

  get query(): URLSearchParams {
    return this.#place.query;
  }

  /** Goes to an address below the base, such as `jobs?state=failed`. */
  go(to: string, how: { replace?: boolean } = {}): void {
    const url = new URL(to === '' ? './' : to, document.baseURI);
    if (how.replace) history.replaceState(null, '', url);
    else history.pushState(null, '', url);
    const before = this.#place.parts.join('/');
    this.#place = here();
    if (this.#place.parts.join('/') !== before) scrollTo(0, 0);
  }

  /** Changes the query and stays on the page. What is empty is left out. */
  setQuery(changes: Record<string, string | null>, how: { replace?: boolean } = {}): void {
    const query = new URLSearchParams(this.#place.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const text = query.toString();
    this.go(path(...this.parts) + (text ? `?${text}` : ''), how);
  }

  /** Links within the dashboard change the page without loading it anew. */
  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    const base = basePath();
    if (!link.pathname.startsWith(base)) return;
    const below = link.pathname.slice(base.length);
    if (/^(api|docs|openapi\.json|metrics|livez|readyz)(\/|$)/.test(below)) return;
    event.preventDefault();
    this.go(below + link.search);
  }
}

export const router = new Router();

/** An address of the dashboard, for a link: each part is escaped. */
export function path(...parts: string[]): string {
  return parts.map(part).join('/');
}

/** The address of a schedule: by name where an address can hold it, by id otherwise. */
export function schedulePath(schedule: { id: string; name: string }, ...more: string[]): string {
  const holds = schedule.name !== '.' && schedule.name !== '..';
  return path('schedules', holds ? schedule.name : schedule.id, ...more);
}
