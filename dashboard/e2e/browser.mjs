// A real Chromium, whose every page is watched: whatever it complains about fails the test, unless it was expected.
import { chromium as playwright } from 'playwright-core';
import { chromium } from './settings.mjs';

/** Nothing but what the pages ask for goes over the network. */
const ARGS = [
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-default-apps',
  '--disable-dev-shm-usage',
  '--disable-domain-reliability',
  '--disable-sync',
  '--no-first-run',
  '--no-pings',
];

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** How long a page may take to show something. */
const PATIENCE_MS = 15_000;

export function launch() {
  return playwright.launch({ executablePath: chromium(), args: ARGS });
}

/** What a page complains about. */
export class Watch {
  #complaints = [];
  #expected = [];
  #listeners = [];

  /** From now on, complaints that match are no failure: `watch.expect(/409 .*\/jobs/)`. */
  expect(pattern) {
    this.#expected.push(pattern);
  }

  add(complaint) {
    this.#complaints.push(complaint);
    for (const listen of this.#listeners) listen(complaint);
  }

  /** Waits for a complaint that matches. */
  heard(pattern) {
    if (this.#complaints.some((complaint) => pattern.test(complaint))) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#listeners.push((complaint) => pattern.test(complaint) && resolve());
      const late = () => reject(new Error(`no complaint ${pattern}, only ${JSON.stringify(this.#complaints)}`));
      setTimeout(late, PATIENCE_MS).unref();
    });
  }

  /** What was not expected. */
  get unexpected() {
    return this.#complaints.filter((complaint) => !this.#expected.some((pattern) => pattern.test(complaint)));
  }

  check() {
    if (this.unexpected.length > 0) throw new Error(`the page complains:\n  ${this.unexpected.join('\n  ')}`);
  }
}

/** A fresh profile with one page; `options` are Playwright's for a context. */
export async function open(browser, options = {}) {
  const watch = new Watch();
  const context = await browser.newContext({
    viewport: DESKTOP,
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    colorScheme: 'light',
    ...options,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  await context.exposeBinding('tellOfViolation', (_, told) => watch.add(`against the CSP: ${told}`));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      window.tellOfViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
    });
  });
  context.on('page', (page) => listen(page, watch));
  const page = await context.newPage();
  return { context, page, watch };
}

function listen(page, watch) {
  page.on('console', (message) => {
    // What could not be loaded is told by the requests themselves, with more words.
    if (message.type() !== 'error' || message.text().startsWith('Failed to load resource')) return;
    watch.add(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => watch.add(`error: ${error.stack ?? error}`));
  page.on('response', (response) => {
    if (response.status() >= 400) watch.add(`${response.status()} ${response.request().method()} ${response.url()}`);
  });
  page.on('requestfailed', (request) => {
    const why = request.failure()?.errorText ?? 'failed';
    // The page itself, or the way to another one, has ended it.
    if (why !== 'net::ERR_ABORTED') watch.add(`${why} ${request.method()} ${request.url()}`);
  });
}

/**
 * The requests to the API that are made while something is done, such as `GET /jobs?limit=50`; the stream of events is
 * none. `act` ends when the page shows what it came for: the stream never ends, so that no page is ever idle.
 */
export async function requestsDuring(page, act) {
  const made = [];
  const note = (request) => {
    const { pathname, search } = new URL(request.url());
    const at = pathname.indexOf('/api/v1/');
    if (at >= 0 && !pathname.endsWith('/events')) made.push(`${request.method()} ${pathname.slice(at + 7)}${search}`);
  };
  page.on('request', note);
  await act();
  page.off('request', note);
  return made;
}
