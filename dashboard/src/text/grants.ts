// Grants in words, and the command that makes one.
import type { Grant } from '../api/types';
import { commandLine, flag } from './commands';

const SCOPE = 'graph:execute:';

/** Whether anything begins under it, and if not, why. */
export function grantState(grant: Grant, now: number): 'valid' | 'revoked' | 'expired' | 'used up' {
  if (grant.revoked_at) return 'revoked';
  if (grant.expires_at && Date.parse(grant.expires_at) <= now) return 'expired';
  if (grant.max_runs !== null && grant.max_runs !== undefined && grant.runs >= grant.max_runs) return 'used up';
  return 'valid';
}

/** A scope in words. */
export function scopeInWords(scope: string): string {
  if (scope === `${SCOPE}*`) return 'every graph';
  return scope.startsWith(SCOPE) ? scope.slice(SCOPE.length) : scope;
}

export function rateInWords(rate: Grant['rate']): string {
  if (!rate) return 'any';
  return `${rate.jobs} per ${rate.per}${rate.burst ? `, ${rate.burst} at once` : ''}`;
}

export interface GrantFields {
  account: string;
  /** One graph in each line; every graph when empty. */
  graphs: string;
  expires_at: string | null;
  max_runs: string;
  jobs: string;
  per: string;
  burst: string;
}

function graphsOf(fields: GrantFields): string[] {
  return fields.graphs.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
}

/** What the API takes. A number that is none is sent as it is, so that the server says what is wrong with it. */
export function grantBody(fields: GrantFields): Record<string, unknown> {
  const graphs = graphsOf(fields);
  const number = (text: string) => (text.trim() === '' ? null : Number(text));
  return {
    billing_account: fields.account,
    scopes: (graphs.length > 0 ? graphs : ['*']).map((graph) => SCOPE + graph),
    expires_at: fields.expires_at,
    max_runs: number(fields.max_runs),
    rate:
      fields.jobs.trim() === '' ? null : { jobs: Number(fields.jobs), per: fields.per, burst: number(fields.burst) },
  };
}

/** The same for a terminal. */
export function grantCommand(fields: GrantFields): string {
  const words = ['punctual', 'grant', 'add', ...flag('--account', fields.account || 'ACCOUNT')];
  for (const graph of graphsOf(fields)) words.push(...flag('--graph', graph));
  if (fields.expires_at) words.push('--expires-at', fields.expires_at);
  if (fields.max_runs.trim()) words.push(...flag('--max-runs', fields.max_runs.trim()));
  if (fields.jobs.trim()) words.push(...flag('--rate', `${fields.jobs.trim()}/${fields.per}`));
  if (fields.jobs.trim() && fields.burst.trim()) words.push(...flag('--burst', fields.burst.trim()));
  return commandLine(...words);
}
