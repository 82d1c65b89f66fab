// Where the programs are that the tests start: `cargo xtask test --part browser` says it, and else the usual places do.
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The nearest folder above this one that has what is looked for. */
function above(wanted) {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, wanted))) {
    if (folder === dirname(folder))
      throw new Error(`there is no ${wanted} above ${import.meta.url}; build everything first`);
    folder = dirname(folder);
  }
  return join(folder, wanted);
}

/** The program that is tested: the one that users get. */
export const program = () => process.env.E2E_PROGRAM ?? above('target/debug/punctual');

/** Makes databases on a throw-away PostgreSQL. */
export const databases = () => process.env.E2E_DATABASES ?? above('target/debug/examples/databases_for_tests');

/** Where pictures of failing tests go. */
export const failures = () => process.env.E2E_FAILURES ?? resolve(above('target'), 'dashboard/failures');

/** Only this store, `sqlite` or `postgres`, for whoever writes a test. */
export const onlyStore = () => process.env.E2E_STORE;

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The browser. */
export function chromium() {
  const found = [process.env.E2E_CHROMIUM, ...CHROMIUM].find((path) => path && existsSync(path));
  if (!found) throw new Error('there is no Chromium; `cargo xtask deps` installs it, or E2E_CHROMIUM names one');
  return found;
}
