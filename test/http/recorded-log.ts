import { type Logger, pino } from 'pino';

/** A log of every level that keeps its lines. */
export function recordedLog(): { readonly log: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  return { log, lines };
}

/** Whether a text contains a secret, as text or as byte values. */
export function reveals(text: string, secret: string): boolean {
  const body = secret.replace(/^crm_live_/, '');
  return text.includes(body) || text.includes([...Buffer.from(body)].join(','));
}
