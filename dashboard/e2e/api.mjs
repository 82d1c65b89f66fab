// A client of the API for tests: what a test needs there is made by it, and what a page did is looked up with it.

/** How long something may take that happens by itself, and how often it is looked at. */
const PATIENCE_MS = 30_000;
const LOOK_MS = 50;

export class Api {
  constructor(url, token) {
    this.url = url;
    this.token = token;
  }

  /** The same for somebody else. */
  as(token) {
    return new Api(this.url, token);
  }

  /** One call; `body` is sent as JSON, or as it is when it is a text. Anything but a success is an error. */
  async call(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers['content-type'] = 'application/json';
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await fetch(`${this.url}/api/v1${path}`, { method, headers, body: text });
    const said = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${said}`);
    return said === '' ? null : JSON.parse(said);
  }

  get(path) {
    return this.call('GET', path);
  }

  post(path, body = {}) {
    return this.call('POST', path, body);
  }

  put(path, body) {
    return this.call('PUT', path, body);
  }

  patch(path, body) {
    return this.call('PATCH', path, body);
  }

  delete(path) {
    return this.call('DELETE', path);
  }

  /** A job that runs a shell's words: `api.shell('echo hello; exit 3')`; `more` are other fields of the job. */
  shell(words, more = {}) {
    return this.post('/jobs', { target: { kind: 'command', argv: ['sh', '-c', words] }, ...more });
  }

  /** A schedule that runs a shell's words; far away from firing by itself unless `more` says otherwise. */
  schedule(name, words, more = {}) {
    const target = { kind: 'command', argv: ['sh', '-c', words] };
    return this.post('/schedules', { name, cron: '0 3 1 1 *', timezone: 'UTC', target, ...more });
  }

  /** A token of somebody with a role, for `page.logIn` and `as`. */
  async newToken(role, owner = role) {
    return (await this.post('/tokens', { name: `${role} ${owner}`, owner, role })).secret;
  }

  /** Looks until something is so, and returns it: `await api.until('/jobs/1', (job) => job.state === 'failed')`. */
  async until(path, isSo) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = await this.get(path);
      if (isSo(found)) return found;
      if (Date.now() > end) throw new Error(`GET ${path} is still ${JSON.stringify(found).slice(0, 2000)}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Waits until a job has ended. */
  ended(id) {
    const ends = ['completed', 'failed', 'skipped', 'cancelled'];
    return this.until(`/jobs/${id}`, (job) => ends.includes(job.state));
  }
}
