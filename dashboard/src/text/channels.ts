// Channels as fields of a form, as what the API takes, and as the command that makes one.
import type { Channel } from '../api/types';
import { commandOn, flag } from './commands';

export type ChannelKind = Channel['kind'];
export type ChannelTarget = Channel['target'];

export const KINDS: [kind: ChannelKind, words: string][] = [
  ['slack', 'Slack, Mattermost, Rocket.Chat, Discord'],
  ['webhook', 'Webhook: a signed POST'],
  ['email', 'E-mail'],
  ['ping', 'Ping: a plain GET, for a dead-man’s switch'],
];

export interface ChannelFields {
  name: string;
  description: string;
  kind: ChannelKind;
  url: string;
  /** One reference in each line, the present secret first. */
  secrets: string;
  /** One `NAME=VALUE` in each line. */
  headers: string;
  /** One address in each line. */
  to: string;
  from: string;
  host: string;
  port: string;
  tls: string;
  username: string;
  password: string;
}

export const NO_CHANNEL: ChannelFields = {
  ...{ name: '', description: '', kind: 'slack', url: '', secrets: '', headers: '' },
  ...{ to: '', from: '', host: '', port: '', tls: 'starttls', username: '', password: '' },
};

type TextOrSecret = string | { secret: string };

/** A text that refers to a secret is sent as a reference, so that it is never kept as one. */
function given(text: string): TextOrSecret {
  const word = text.trim();
  return /^(env:|file:)/.test(word) ? { secret: word } : word;
}

/** A text or a reference as one types it. */
export function typedText(value: TextOrSecret | null | undefined): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : value.secret;
}

function lines(text: string): string[] {
  return text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
}

function headerPair(line: string): [string, string] {
  const at = line.indexOf('=');
  return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

/** Where it leads, as the API takes it. */
export function targetOf(fields: ChannelFields): ChannelTarget {
  const url = given(fields.url);
  if (fields.kind === 'slack' || fields.kind === 'ping') return { kind: fields.kind, url };
  if (fields.kind === 'webhook') {
    const headers = lines(fields.headers).map((line) => {
      const [name, value] = headerPair(line);
      return [name, given(value)] as const;
    });
    const secrets = lines(fields.secrets).map((secret) => ({ secret }));
    return { kind: 'webhook', url, secrets, ...(headers.length > 0 ? { headers: Object.fromEntries(headers) } : {}) };
  }
  return {
    ...{ kind: 'email' as const, host: fields.host.trim(), from: fields.from.trim(), to: lines(fields.to) },
    tls: fields.tls as 'starttls' | 'implicit' | 'none',
    ...(fields.port.trim() ? { port: Number(fields.port) } : {}),
    ...(fields.username.trim() ? { username: given(fields.username) } : {}),
    ...(fields.password.trim() ? { password: { secret: fields.password.trim() } } : {}),
  };
}

/** The fields of a channel that is there. */
export function fieldsOfChannel(channel: Channel): ChannelFields {
  const { target } = channel;
  const fields = { ...NO_CHANNEL, name: channel.name, description: channel.description, kind: channel.kind };
  if (target.kind === 'email') {
    return {
      ...fields,
      ...{ to: target.to.join('\n'), from: target.from, host: target.host, port: String(target.port ?? '') },
      ...{ tls: target.tls ?? 'starttls', username: typedText(target.username) },
      password: target.password?.secret ?? '',
    };
  }
  if (target.kind !== 'webhook') return { ...fields, url: typedText(target.url) };
  const headers = Object.entries(target.headers ?? {}).map(([name, value]) => `${name}=${typedText(value)}`);
  const secrets = target.secrets.map(({ secret }) => secret).join('\n');
  return { ...fields, url: typedText(target.url), secrets, headers: headers.join('\n') };
}

/** Where it leads, in one line. */
export function channelLine(target: ChannelTarget): string {
  if (target.kind === 'email') return `${target.to.join(', ')} by ${target.host}`;
  return typedText(target.url);
}

/** The command that makes it, or changes it. */
export function channelCommand(fields: ChannelFields, isNew: boolean): string {
  const words: string[] = [];
  const add = (name: string, value: string) => {
    if (value.trim()) words.push(...flag(name, value.trim()));
  };
  if (fields.kind === 'email') {
    for (const address of lines(fields.to)) add('--email', address);
    add('--smtp', fields.port.trim() ? `${fields.host.trim()}:${fields.port.trim()}` : fields.host);
    add('--from', fields.from);
    if (fields.tls !== 'starttls') add('--tls', fields.tls);
    add('--username', fields.username);
    add('--password', fields.password);
  } else {
    add(`--${fields.kind}`, fields.url.trim() || 'URL');
    if (fields.kind === 'webhook') {
      for (const secret of lines(fields.secrets)) add('--secret', secret);
      for (const header of lines(fields.headers)) add('--header', header);
    }
  }
  add('--description', fields.description);
  return commandOn(isNew ? 'channel add' : 'channel edit', [fields.name || 'NAME'], words);
}
