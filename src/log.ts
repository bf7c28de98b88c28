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
  const destination = process.stderr.isTTY
    ? PinoPretty({ destination: terminal ?? 2, ignore: 'pid,hostname', sync: true })
    : standardError();
  return pino({ name, level, serializers: { err: serializeError } }, destination);
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
