// The one way to the API: every call, its errors in the server's own words, and the header that changes need.
import { parseExact, writeExact } from '../text/exact';
import type { Problem } from './types';

export type Query = Record<string, string | number | boolean | null | undefined>;

/** A refusal or a failure, with what to do about it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly remedy: string | null = null,
    readonly fields: { pointer: string; detail: string }[] = [],
  ) {
    super(message);
  }

  /** What is wrong with one field of what was sent, such as `/cron`. */
  at(pointer: string): string | null {
    return this.fields.find((field) => field.pointer === pointer)?.detail ?? null;
  }
}

interface Hooks {
  /** The session is over. */
  signedOut: () => void;
  /** The server's clock, seen in an answer. */
  serverTime: (at: number) => void;
}

const hooks: Hooks = { signedOut: () => {}, serverTime: () => {} };
let csrfToken: string | null = null;

export function onCalls(given: Hooks): void {
  Object.assign(hooks, given);
}

export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

/** The address of something the server has, whatever path it is served under. */
export function address(path: string): string {
  return new URL(path.replace(/^\//, ''), document.baseURI).href;
}

export function withQuery(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** One part of a path, whatever it holds. */
export function part(text: string): string {
  return encodeURIComponent(text);
}

async function send(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<Response> {
  const headers = new Headers(more.headers);
  if (!headers.has('accept')) headers.set('accept', 'application/json');
  if (body !== undefined) headers.set('content-type', 'application/json');
  if (method !== 'GET' && csrfToken) headers.set('x-csrf-token', csrfToken);
  const init: RequestInit = { ...more, method, headers, credentials: 'same-origin' };
  if (body !== undefined) init.body = typeof body === 'string' ? body : writeExact(body);
  let response: Response;
  try {
    response = await fetch(address(`api/v1${path}`), init);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, 'unreachable', 'The server cannot be reached.', 'Check that it runs; this page tries again.');
  }
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isNaN(date)) hooks.serverTime(date);
  if (!response.ok) throw await refusal(response);
  return response;
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

async function refusal(response: Response): Promise<ApiError> {
  const problem = (await response.json().catch(() => null)) as Problem | null;
  if (response.status === 401) hooks.signedOut();
  if (!problem?.code) return new ApiError(response.status, 'unknown', `The server answered ${response.status}.`);
  return new ApiError(response.status, problem.code, problem.detail, problem.remedy ?? null, problem.errors ?? []);
}

async function read<T>(response: Response): Promise<T> {
  try {
    const text = await response.text();
    // Numbers that a browser would round are kept as they were written.
    return (text === '' ? null : parseExact(text)) as T;
  } catch (error) {
    if (isAbort(error)) throw error;
    const remedy = 'Look whether it was done, then try again.';
    throw new ApiError(0, 'broken_answer', 'The answer of the server broke off or cannot be read.', remedy);
  }
}

/** How a request may be cut short. */
export interface CallOptions {
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

export const api = {
  async get<T>(path: string, query: Query = {}, options: CallOptions = {}): Promise<T> {
    return read<T>(await send('GET', withQuery(path, query), undefined, options));
  },
  async post<T>(path: string, body: unknown = {}, options: CallOptions = {}): Promise<T> {
    return read<T>(await send('POST', path, body, options));
  },
  async put<T>(path: string, body: unknown, options: CallOptions = {}): Promise<T> {
    return read<T>(await send('PUT', path, body, options));
  },
  async patch<T>(path: string, body: unknown, options: CallOptions = {}): Promise<T> {
    return read<T>(await send('PATCH', path, body, options));
  },
  async delete(path: string, options: CallOptions = {}): Promise<void> {
    await send('DELETE', path, undefined, options);
  },
  /** The body as it is: streams and files. */
  async raw(path: string, query: Query = {}, options: CallOptions = {}): Promise<Response> {
    return send('GET', withQuery(path, query), undefined, options);
  },
};
