// Calls to a server that does not answer as it should, and bodies with numbers that JavaScript would round.
import assert from 'node:assert/strict';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'node:test';
import { ApiError, api } from '../api/client';
import { parseExact } from '../text/exact';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Calls a server of its own, which answers in the given way. */
async function calling(answer: Answer, call: () => Promise<void>): Promise<void> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // The address that a page has and a test does not.
  const { port } = server.address() as AddressInfo;
  Object.assign(globalThis, { document: { baseURI: `http://127.0.0.1:${port}/` } });
  try {
    await call();
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const isBroken = (error: unknown) => {
  assert.ok(error instanceof ApiError, String(error));
  assert.equal(error.code, 'broken_answer');
  assert.match(error.remedy ?? '', /Look whether it was done/);
  return true;
};

test('an answer that is no JSON is told as a problem', async () => {
  await calling(
    (_, response) => response.end('<html>'),
    () => assert.rejects(api.post('/jobs', {}), isBroken),
  );
});

test('an answer that breaks off is told as a problem', async () => {
  await calling(
    (_, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"items": [', () => response.destroy());
    },
    () => assert.rejects(api.get('/jobs'), isBroken),
  );
});

test('a reading that is no longer wanted stays what it is', async () => {
  const stop = new AbortController();
  await calling(
    (_, response) => {
      response.write('{"items": [');
      setImmediate(() => stop.abort());
    },
    () => assert.rejects(api.get('/jobs', {}, { signal: stop.signal }), { name: 'AbortError' }),
  );
});

test('numbers are sent digit by digit', async () => {
  let sent = '';
  await calling(
    (request, response) => {
      request.on('data', (chunk) => (sent += String(chunk)));
      request.on('end', () => response.end('{}'));
    },
    () => api.post('/jobs', { input: parseExact('{"n":12345678901234567890,"f":1.10}'), left: undefined }),
  );
  assert.equal(sent, '{"input":{"n":12345678901234567890,"f":1.10}}');
});
