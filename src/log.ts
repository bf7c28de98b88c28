import { type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';

/** JSON lines on standard error; on a terminal, lines for a person. */
export function createLog(name: string, level: string): Logger {
  const destination = process.stderr.isTTY
    ? PinoPretty({ destination: 2, ignore: 'pid,hostname', sync: true })
    : pino.destination({ dest: 2, sync: true });
  return pino({ name, level }, destination);
}
