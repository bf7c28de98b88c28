import type { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';
import { serializeError } from './error-text.ts';

/** What is kept of what cannot be written now. */
const mostUnwrittenBytes = 2 ** 20;

/**
 * JSON lines on standard error; on a terminal, lines for a person, written to
 * `terminal` where something else draws there too. Errors are logged without values of rows.
 */
export function createLog(name: string, level: string, terminal?: Writable): Logger {
  const options = { name, level, serializers: { err: serializeError } };
  if (!process.stderr.isTTY) return pino(options, standardError());
  const pretty = PinoPretty({
    destination: terminal ?? 2,
    ignore: 'pid,hostname,reqId,answer',
    messageFormat,
    singleLine: true,
    sync: true,
  });
  return pino({ ...options, formatters: { log: groupAnswer } }, pretty);
}

/** Moves the fields of an answered request into one that pino-pretty leaves out. */
const groupAnswer = (fields: Record<string, unknown>): Record<string, unknown> =>
  'status' in fields && 'route' in fields ? { answer: fields } : fields;

/** The fields of an answered request as one line; other messages with their request's id. */
function messageFormat(line: Record<string, unknown>, messageKey: string): string {
  const { answer, reqId } = line;
  if (answer === undefined) return [line[messageKey], reqId].filter(Boolean).join(' ');
  const { method, route, status, milliseconds, organization, key } = answer as typeof line;
  return [method, route, status, `${milliseconds} ms`, organization, key].filter(Boolean).join(' ');
}

/** Where its disk is full nothing ends for that: what is kept is written as soon as there is room. */
function standardError() {
  const destination = pino.destination({
    dest: 2,
    sync: true,
    // Of any length, at once; with 0 it cannot be asked to try again.
    minLength: 1,
    maxLength: mostUnwrittenBytes,
  });
  destination.on('error', () => {});
  destination.on('drop', () => destination.flush());
  return destination;
}
