// Who is logged in, and what they may do.
import { ApiError, api, onCalls, setCsrfToken } from '../api/client';
import type { Role, Session } from '../api/types';
import { perform } from './acts.svelte';
import { clock } from './clock.svelte';

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

class SessionState {
  #session = $state<Session | null>(null);
  #asked = $state(false);
  #isOver = $state(false);
  /** Why nobody is logged in, when that is not the usual case. */
  problem = $state<ApiError | null>(null);

  get current(): Session | null {
    return this.#session;
  }

  /** Whether the server no longer knows who was there: what they typed stays until they have logged in again. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the server has been asked who is there. */
  get isKnown(): boolean {
    return this.#asked;
  }

  can(role: Role): boolean {
    return this.#session !== null && RANK[this.#session.role] >= RANK[role];
  }

  /** Logs in by the link's token if there is one, which then leaves the address bar; else asks who is there. */
  async begin(): Promise<void> {
    onCalls({ signedOut: () => this.#lapsed(), serverTime: (at) => clock.learn(at) });
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token) {
      history.replaceState(history.state, '', location.pathname + location.search);
      await this.logIn(token);
      return;
    }
    try {
      this.#begun(await api.get<Session>('/session'));
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401) this.problem = error;
    }
    this.#asked = true;
  }

  async logIn(token: string): Promise<void> {
    this.problem = null;
    try {
      this.#begun(await api.post<Session>('/session', { token }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.problem = error;
    }
    this.#asked = true;
  }

  async logOut(): Promise<void> {
    const isOut = await perform('You are logged out', async () => {
      try {
        await api.delete('/session');
      } catch (error) {
        // Nobody is there any more, which is what was wanted.
        if (!(error instanceof ApiError) || error.status !== 401) throw error;
      }
      return true;
    });
    if (isOut) this.#ended();
  }

  #begun(session: Session): void {
    this.#session = session;
    this.#isOver = false;
    setCsrfToken(session.csrf_token ?? null);
    this.problem = null;
  }

  #lapsed(): void {
    this.#isOver = this.#session !== null;
    setCsrfToken(null);
  }

  #ended(): void {
    this.#session = null;
    this.#isOver = false;
    this.problem = null;
    setCsrfToken(null);
  }
}

export const session = new SessionState();
