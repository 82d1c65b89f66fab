// A real server: the shipped program on a data folder of its own, started, stopped, killed and started again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Api } from './api.mjs';
import { program } from './settings.mjs';

/** How long a server may take to say that it is ready; far above what it needs on a slow machine. */
const PATIENCE_MS = 60_000;

/** The environment without what it may say to the program. */
function surroundings() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PUNCTUAL_')));
}

export class Server {
  #child = null;
  #args;
  #folder;
  #port = 0;
  /** The first start's link that logs a browser in. */
  loginLink = null;
  /** Where it is found, without a slash at its end. */
  url = '';
  /** The admin's token. */
  token = '';
  /** What it said on standard error, for messages of failing tests. */
  log = [];

  /**
   * Starts a server and waits until it is ready.
   *
   * `database` is the address of a PostgreSQL database; without one it has a SQLite file. `args` are more arguments of
   * `punctual serve`, such as `['--base-path', '/punctual']`.
   */
  static async start({ database = null, args = [] } = {}) {
    const server = new Server();
    server.#folder = await mkdtemp(join(tmpdir(), 'punctual-e2e-'));
    server.#args = [...(database ? ['--database', database] : []), ...args];
    await server.startAgain();
    return server;
  }

  /** The data folder. */
  get folder() {
    return this.#folder;
  }

  /** A client of its API with the admin's token; `as(token)` gives one for somebody else. */
  get api() {
    return new Api(this.url, this.token);
  }

  /** Starts it after it was stopped or killed: on the same data, at the same address. */
  async startAgain() {
    const listen = `127.0.0.1:${this.#port}`;
    const args = ['serve', '--data', this.#folder, '--listen', listen, ...this.#args];
    const child = spawn(program(), args, { env: surroundings(), stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    createInterface({ input: child.stderr }).on('line', (line) => this.#hear(line));
    const lines = createInterface({ input: child.stdout });
    const ready = new Promise((resolve, reject) => {
      lines.on('line', (line) => line.startsWith('ready: ') && resolve(line));
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}:\n${this.log.join('\n')}`)));
      const late = () => reject(new Error(`the server is not ready in time:\n${this.log.join('\n')}`));
      setTimeout(late, PATIENCE_MS).unref();
    });
    this.url = (await ready).split('API at ')[1];
    this.#port = new URL(this.url).port;
    this.token = (await readFile(join(this.#folder, 'admin.token'), 'utf8')).trim();
  }

  #hear(line) {
    this.log.push(line);
    this.loginLink ??= line.match(/log in at (\S+)/)?.[1] ?? null;
  }

  /** Lets it finish what it does. */
  async stop() {
    await this.#end('SIGTERM');
  }

  /** Ends it in the middle of whatever it does. */
  async kill() {
    await this.#end('SIGKILL');
  }

  async #end(signal) {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.removeAllListeners('exit');
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  /** Ends it and removes its folder. */
  async remove() {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
