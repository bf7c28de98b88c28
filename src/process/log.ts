import { type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';
import { serializeError } from './error-text.ts';

/** The size of the buffer for lines that cannot be written now. */
const maxBufferedBytes = 2 ** 20;

/** JSON lines on standard error, or readable lines on a terminal. Errors are logged without values of rows. */
export function createLog(name: string, level: string): Logger {
  const options = { name, level, serializers: { err: serializeError } };
  if (!process.stderr.isTTY) return pino(options, standardError());
  const pretty = PinoPretty({
    destination: 2,
    ignore: 'pid,hostname,reqId,response',
    messageFormat,
    singleLine: true,
    sync: true,
  });
  return pino({ ...options, formatters: { log: groupResponse } }, pretty);
}

/** Logs what Node would print as text: warnings, and the error that ends the process. */
export function logProcessEvents(log: Logger): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => log.warn({ err: warning }, 'a warning of Node'));
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'the process ends after an unexpected error');
    process.exit(1);
  });
}

/** Moves the fields of a completed request into one field that pino-pretty ignores. */
const groupResponse = (fields: Record<string, unknown>): Record<string, unknown> =>
  'status' in fields && 'route' in fields ? { response: fields } : fields;

/** The fields of a completed request as one line, or another message with its request id. */
function messageFormat(line: Record<string, unknown>, messageKey: string): string {
  const { response, reqId } = line;
  if (response === undefined) return [line[messageKey], reqId].filter(Boolean).join(' ');
  const { method, route, status, milliseconds, organization, key } = response as typeof line;
  return [method, route, status, `${milliseconds} ms`, organization, key].filter(Boolean).join(' ');
}

/** If the disk is full, the process goes on. Buffered lines are written when there is space. */
function standardError() {
  const destination = pino.destination({
    dest: 2,
    sync: true,
    // Writes at once. With 0, `flush` would not retry.
    minLength: 1,
    maxLength: maxBufferedBytes,
  });
  destination.on('error', () => {});
  destination.on('drop', () => destination.flush());
  return destination;
}
