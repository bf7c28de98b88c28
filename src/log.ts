import type { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';

/**
 * JSON lines on standard error; on a terminal, lines for a person, written to
 * `terminal` where something else draws there too.
 */
export function createLog(name: string, level: string, terminal?: Writable): Logger {
  const destination = process.stderr.isTTY
    ? PinoPretty({ destination: terminal ?? 2, ignore: 'pid,hostname', sync: true })
    : pino.destination({ dest: 2, sync: true });
  return pino({ name, level }, destination);
}
