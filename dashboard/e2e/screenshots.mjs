// Takes the pictures of the documentation: main pages of the demo's fixed history, in light, in dark, and on a phone.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DESKTOP, PHONE, launch, open } from './browser.mjs';
import { program } from './settings.mjs';

const SEED = '1';

const LOOKS = [
  { name: 'light', viewport: DESKTOP, colorScheme: 'light' },
  { name: 'dark', viewport: DESKTOP, colorScheme: 'dark' },
  { name: 'phone', viewport: PHONE, colorScheme: 'light' },
];

/** Pages by the name of their picture, and the looks they are taken in. */
const PAGES = [
  ['overview', '', ['light', 'dark', 'phone']],
  ['schedules', 'schedules', ['light', 'phone']],
  ['schedule', 'schedules/nightly-backup', ['dark']],
  ['jobs', 'jobs', ['light']],
  ['queues', 'queues', ['light']],
];

/** All pictures together must stay below this. */
const MOST_BYTES = 1_500_000;

const folder = process.argv[2];
if (!folder) throw new Error('say where the pictures go: node screenshots.mjs FOLDER');

async function demo() {
  const args = ['demo', '--headless', '--json', '--seed', SEED, '--listen', '127.0.0.1:0'];
  const child = spawn(program(), args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return { child, ...JSON.parse(line) };
}

async function take(browser, { url, sign_in: signIn }) {
  let sum = 0;
  for (const { name: look, ...options } of LOOKS) {
    const { page, context, watch } = await open(browser, { ...options, reducedMotion: 'reduce' });
    await page.goto(signIn);
    await page.locator('.frame main h1').first().waitFor();
    for (const [name, path] of PAGES.filter(([, , looks]) => looks.includes(look))) {
      await page.goto(`${url}/${path}`);
      await page.locator('.frame main h1').first().waitFor();
      // Nothing that still loads belongs in a picture, and nothing that could not be loaded.
      await page.waitForFunction(() => !document.querySelector('main .skeleton'));
      const heading = await page.locator('.frame main h1').first().innerText();
      if (/could not be loaded|No such page/.test(heading)) throw new Error(`${page.url()}: ${heading}`);
      const file = join(folder, `${name}-${look}.png`);
      await page.screenshot({ path: file, animations: 'disabled' });
      const { size } = await stat(file);
      sum += size;
      console.log(`${(size / 1000).toFixed(0).padStart(5)} kB ${name}-${look}.png`);
    }
    watch.check();
    await context.close();
  }
  if (sum > MOST_BYTES) throw new Error(`the pictures are ${sum} bytes together, more than ${MOST_BYTES}: take fewer`);
}

await mkdir(folder, { recursive: true });
const running = await demo();
const browser = await launch();
try {
  await take(browser, running);
} finally {
  await browser.close();
  const ended = once(running.child, 'exit');
  running.child.kill('SIGTERM');
  await ended;
}
