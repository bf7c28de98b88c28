import type { Logger } from 'pino';
import { createRecordedLog } from '../support/logged-lines.ts';

/** A log of every level that keeps its lines. */
export function recordedLog(): { readonly log: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  return { log: createRecordedLog((line) => void lines.push(line)), lines };
}

/** Whether a text contains a secret, as text or as byte values. */
export function reveals(text: string, secret: string): boolean {
  const body = secret.replace(/^crm_live_/, '');
  return text.includes(body) || text.includes([...Buffer.from(body)].join(','));
}
