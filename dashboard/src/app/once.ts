// Keys that let a call be repeated without being carried out twice.

function randomKey(): string {
  // `randomUUID` is missing where the page came by plain http.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Gives the headers of a call: the same key for as long as the same is sent, and another one when it changes. */
export function once(): (sent: string) => { 'idempotency-key': string } {
  let last: string | null = null;
  let key = '';
  return (sent) => {
    if (sent !== last) {
      last = sent;
      key = randomKey();
    }
    return { 'idempotency-key': key };
  };
}
