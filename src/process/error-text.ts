import type { ClickHouseError } from '@clickhouse/client';
import pg from 'pg';

/** Error types of DuckDB whose messages contain no values of rows. */
const duckdbTypesWithoutValues = new Set([
  'Binder',
  'Catalog',
  'Connection',
  'IO',
  'Interrupt',
  'Out of Memory',
  'Parser',
  'Permission',
  'Serialization',
  'Transaction',
  'TransactionContext',
]);

/** TypeErrors about the program. Other messages of a TypeError may quote the operand. */
const isAboutProgram =
  /^(Cannot (read|set) propert|Class constructor )|is not (a function|a constructor|iterable)$/;

/** Whether an error's message may quote a value of a row, as conversion errors do. */
function mayQuoteValues(error: unknown): boolean {
  // Data exceptions, constraint violations, RAISE, and internal errors other than damaged files.
  if (error instanceof pg.DatabaseError)
    return /^(0A|2[123]|44|P0|XX(?!00[12]))/.test(error.code ?? '');
  if (!(error instanceof Error) || isClickHouseError(error)) return true;
  if (error instanceof TypeError) return !isAboutProgram.test(error.message);
  if (error instanceof SyntaxError || error instanceof RangeError) return true;
  const type = duckdbErrorType(error);
  return type !== null && !duckdbTypesWithoutValues.has(type);
}

/** By name, because the client takes 15 ms to load, and most processes do not use it. */
const isClickHouseError = (error: Error): error is ClickHouseError =>
  error.constructor.name === 'ClickHouseError';

/** The type, such as `Conversion`; null if the error is not DuckDB's. */
export function duckdbErrorType(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  return /^([A-Z][A-Za-z-]*(?: [A-Za-z]+)*) Error:/.exec(error.message)?.[1] ?? null;
}

/** The first line of an error's message, or only the kind of error if the line may quote values. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return 'something that is not an error was thrown';
  // Node's error for a host with several addresses.
  if (error instanceof AggregateError && error.message === '') return errorText(error.errors[0]);
  if (!mayQuoteValues(error)) return firstLine(error.message) || error.name;
  if (error instanceof pg.DatabaseError) return 'an error whose message may quote a row';
  if (isClickHouseError(error)) {
    return `ClickHouse's error ${error.type ?? error.code}, whose message may quote a row`;
  }
  const type = duckdbErrorType(error);
  return `${type === null ? error.name : `${type} Error`}, whose message may quote a row`;
}

/** Serializes an error for logs, without `detail` and `where` of Postgres, which quote rows. */
export function serializeError(error: unknown): object {
  const message = errorText(error);
  if (!(error instanceof Error)) return { message };
  const { name: type, cause } = error;
  const { code, table, column, constraint } = error as Partial<pg.DatabaseError>;
  return {
    type,
    message,
    stack: `${type}: ${message}${framesOf(error)}`,
    ...Object.fromEntries(
      Object.entries({ code, table, column, constraint }).filter(([, value]) => value),
    ),
    ...(cause instanceof Error ? { cause: serializeError(cause) } : {}),
  };
}

/** The stack without the message at its beginning. */
function framesOf({ stack = '', message }: Error): string {
  const at = stack.indexOf(message);
  if (at < 0) return '';
  const frames = stack.slice(at + message.length);
  return frames.slice(Math.max(0, frames.indexOf('\n')));
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0]?.slice(0, 300) ?? '';
}
