// How much a browser loads before it shows anything: the page, its first script with all that it imports, and the styles.
import assert from 'node:assert/strict';
import { get } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Server } from './server.mjs';

const MOST_BYTES = 150_000;

/** A file as it travels: compressed where the server does so. */
function fetched(url) {
  return new Promise((resolve, reject) => {
    get(url, { headers: { 'accept-encoding': 'gzip', accept: 'text/html' } }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => {
        const sent = Buffer.concat(parts);
        const isSmall = answer.headers['content-encoding'] === 'gzip';
        resolve({
          status: answer.statusCode,
          bytes: sent.length,
          text: (isSmall ? gunzipSync(sent) : sent).toString(),
        });
      });
    }).on('error', reject);
  });
}

/** What a script imports before it runs; `import(…)` comes later. */
function imports(script) {
  return [...script.matchAll(/\b(?:from|import)\s*["']([^"']+)["']/g)].map((found) => found[1]);
}

describe('the first load', () => {
  let server;
  before(async () => (server = await Server.start()));
  after(() => server?.remove());

  it('b10_the_first_load_is_small_and_has_no_charts', async (test) => {
    const loaded = new Map();
    const page = await fetched(`${server.url}/`);
    loaded.set(`${server.url}/`, page.bytes);
    const first = [...page.text.matchAll(/(?:src|href)="(\.\/[^"]+\.(?:js|css))"/g)].map((found) => found[1]);
    const waiting = first.map((path) => new URL(path, `${server.url}/`).href);
    assert.ok(waiting.some((url) => url.endsWith('.js')) && waiting.some((url) => url.endsWith('.css')), page.text);
    for (let url = waiting.pop(); url; url = waiting.pop()) {
      if (loaded.has(url)) continue;
      const file = await fetched(url);
      assert.equal(file.status, 200, url);
      loaded.set(url, file.bytes);
      if (url.endsWith('.js')) waiting.push(...imports(file.text).map((path) => new URL(path, url).href));
    }
    const sum = [...loaded.values()].reduce((one, other) => one + other, 0);
    for (const [url, bytes] of loaded) test.diagnostic(`${(bytes / 1000).toFixed(1)} kB ${new URL(url).pathname}`);
    test.diagnostic(
      `first load: ${(sum / 1000).toFixed(1)} kB in ${loaded.size} files, at most ${MOST_BYTES / 1000} kB`,
    );
    assert.ok(sum <= MOST_BYTES, `the first load is ${sum} bytes; load something later, by import()`);
    const charts = [...loaded.keys()].filter((url) => /chart/i.test(url));
    assert.deepEqual(charts, [], 'charts are loaded when they are first shown');
  });
});
