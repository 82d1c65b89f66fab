// A suite for both stores: each runs against the shipped program on SQLite and on PostgreSQL, with a browser of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { launch, open } from './browser.mjs';
import { Server } from './server.mjs';
import { databases, failures, onlyStore } from './settings.mjs';

const STORES = ['sqlite', 'postgres'];

/** How long one test may take. */
const TIMEOUT_MS = 120_000;

/**
 * Declares tests that run on each store.
 *
 *   onEachStore('a suite', (test) => {
 *     test('it does something', async ({ page, server, api }) => {
 *       await page.logIn();
 *       await page.at('jobs?state=failed');
 *       …
 *     });
 *   });
 *
 * All tests of a suite share one server; each has a page in a profile of its own. What a test gets:
 *
 *   page     Playwright's page, with `logIn(token?)` and `at(path)`: a path below the dashboard's address
 *   watch    `watch.expect(/…/)` says which complaints of the page are no failure
 *   server   `stop()`, `kill()`, `startAgain()`, `url`, `token`, `loginLink`, `folder`
 *   api      a client of the API with the admin's token
 *   newPage  opens another page in another profile: `const { page, watch } = await newPage({ viewport: PHONE })`
 *
 * `args` are more arguments of `punctual serve`; `stores` names the stores when one is enough.
 */
export function onEachStore(name, declare, { args = [], stores = STORES } = {}) {
  for (const store of stores.filter((store) => !onlyStore() || store === onlyStore())) {
    describe(`${name} (${store})`, () => {
      const suite = { server: null, browser: null, database: null };
      before(async () => {
        suite.database = store === 'postgres' ? await Database.make() : null;
        suite.server = await Server.start({ database: suite.database?.url, args });
        suite.browser = await launch();
      });
      after(async () => {
        await suite.browser?.close();
        await suite.server?.remove();
        await suite.database?.drop();
      });
      declare(
        (title, run) => it(title, { timeout: TIMEOUT_MS }, () => perform(suite, `${store} ${title}`, run)),
        store,
      );
    });
  }
}

async function perform({ server, browser }, title, run) {
  const opened = [];
  const newPage = async (options) => {
    const one = await open(browser, options);
    opened.push(one);
    one.page.at = (path = '') => one.page.goto(`${server.url}/${path}`);
    one.page.logIn = (token = server.token) => logIn(one.page, server, token);
    return one;
  };
  const { page, watch, context } = await newPage();
  try {
    await run({ page, watch, context, server, api: server.api, browser, newPage });
    for (const { watch } of opened) watch.check();
  } catch (error) {
    await keepPictures(opened, title);
    const complaints = opened.flatMap(({ watch }) => watch.unexpected);
    const isTold = error.message.startsWith('the page complains');
    if (complaints.length > 0 && !isTold) error.message += `\nthe page complained:\n  ${complaints.join('\n  ')}`;
    throw error;
  } finally {
    await Promise.all(opened.map(({ context }) => context.close().catch(() => {})));
  }
}

/** Follows the link that logs in, and waits until the page is there. */
async function logIn(page, server, token) {
  await page.goto(`${server.url}/#token=${token}`);
  await page.locator('.frame main h1').first().waitFor();
}

async function keepPictures(opened, title) {
  const name = title.replace(/[^\w]+/g, '-').slice(0, 120);
  await mkdir(failures(), { recursive: true });
  for (const [at, { page }] of opened.entries()) {
    const path = join(failures(), `${name}${at === 0 ? '' : `-${at}`}.png`);
    // A page that has crashed has no picture.
    await page.screenshot({ path, fullPage: true, timeout: 5_000 }).then(
      () => console.error(`picture: ${path}`),
      () => {},
    );
  }
}

/** A database on a throw-away PostgreSQL; it is gone when the program that made it is. */
class Database {
  #child;
  url = '';

  static async make() {
    const database = new Database();
    const child = spawn(databases(), { stdio: ['pipe', 'pipe', 'inherit'] });
    database.#child = child;
    const lines = createInterface({ input: child.stdout });
    [database.url] = await Promise.race([
      once(lines, 'line'),
      once(child, 'exit').then(([code]) => {
        throw new Error(`no database could be made: it ended with ${code}`);
      }),
    ]);
    return database;
  }

  async drop() {
    const ended = once(this.#child, 'exit');
    this.#child.stdin.end();
    await ended;
  }
}
