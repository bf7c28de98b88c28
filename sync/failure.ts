import pg from 'pg';
import { isOutOfMemory } from '../src/engines/duckdb/memory.ts';
import { OperatorError } from '../src/operator-error.ts';

/** What went wrong, for an operator: never with the contents of a row. */
export type Failure = { readonly message: string; readonly advice: string };

/** A purchase with a value that cannot be copied, named by its public id. */
export class PoisonedPurchaseError extends Error {
  constructor(purchase: string, value: string) {
    super(`Purchase ${purchase} holds a value that cannot be copied: ${value}.`);
  }
}

/** A purchase whose texts take more bytes than `maxPurchaseTextBytes`. */
export class OversizedRowError extends Error {
  constructor() {
    super('A purchase holds more text than can be copied.');
  }
}

const correctIt = 'Correct it in Postgres. The worker then goes on by itself.';
const waitForIt = 'The worker goes on by itself as soon as that is over.';

/** A sentence about the cause, and one about what to do. */
export function describeFailure(error: unknown): Failure {
  const text = firstLine(error);
  const code = String((error as { code?: unknown } | null)?.code ?? '');
  if (error instanceof OperatorError) return { message: error.message, advice: waitForIt };
  if (code === 'ENOSPC' || code === 'EDQUOT' || /No space left|Disk quota/i.test(text)) {
    return {
      message: 'The disk that holds DATA_DIR is full.',
      advice: `Free space on it, or move DATA_DIR. ${waitForIt}`,
    };
  }
  if (error instanceof PoisonedPurchaseError) {
    return { message: error.message, advice: correctIt };
  }
  if (error instanceof OversizedRowError) return { message: error.message, advice: correctIt };
  if (isDataError(error)) {
    const column = /column "?([a-z_]+)"?/i.exec(String(error))?.[1];
    return {
      message: `A purchase holds a value that cannot be copied${column === undefined ? '' : ` in ${column}`}.`,
      advice: correctIt,
    };
  }
  if (error instanceof pg.DatabaseError) return describeRefusal(error);
  if (isOutOfMemory(error)) {
    return {
      message: 'DuckDB ran out of the memory that it may use.',
      advice: 'Raise DUCKDB_MEMORY_LIMIT, or lower SYNC_CONCURRENCY.',
    };
  }
  if (isInstanceLost(error)) {
    return { message: 'DuckDB has given up.', advice: 'It is started anew by itself.' };
  }
  if (isCorruption(error)) {
    return {
      message: `A file is damaged: ${text}`,
      advice: 'It is built anew by itself; look after the disk.',
    };
  }
  if (/EMFILE|Too many open files/i.test(text)) {
    return {
      message: 'The process has too many files open.',
      advice: 'Raise its limit (ulimit -n), and start it again.',
    };
  }
  if (/EACCES|EPERM|EROFS|Permission denied|read-only file system/i.test(`${code} ${text}`)) {
    return {
      message: `DATA_DIR cannot be written to: ${text}`,
      advice: 'Let the user that the worker runs as write to it.',
    };
  }
  if (
    /^E[A-Z]+$/.test(code) ||
    /^(connect |Connection terminated|Client has)|timeout/i.test(text)
  ) {
    return {
      message: `The connection to Postgres failed: ${text}`,
      advice: `Look whether it runs and can be reached. ${waitForIt}`,
    };
  }
  return { message: text, advice: 'The worker tries again.' };
}

function describeRefusal(error: pg.DatabaseError): Failure {
  const code = error.code ?? '';
  if (/^(08|57P)/.test(code)) {
    return { message: `Postgres ended the connection: ${error.message}.`, advice: waitForIt };
  }
  if (code === '55P03') {
    return {
      message: 'Another transaction keeps the table purchases locked.',
      advice: `Look for it in pg_locks. ${waitForIt}`,
    };
  }
  return {
    message: `Postgres refused: ${error.message} (SQLSTATE ${code}).`,
    advice: 'The worker tries again.',
  };
}

/**
 * A file's own damage, which only making it anew can mend. A file that DuckDB will not use
 * any more, because it could not write to it, is whole: to open it again is enough.
 */
export function isCorruption(error: unknown): boolean {
  return (
    isDamage(error) &&
    /corrupt|checksum|not a valid DuckDB|deserializ|INTERNAL Error/i.test(String(error))
  );
}

/** DuckDB does nothing more for anybody, for what may have been one file's fault: it must be started anew. */
export function isInstanceLost(error: unknown): boolean {
  return /because of a previous fatal error/i.test(String(error));
}

/** Whether a file that could not be opened is to be given up: not where only something else is lacking. */
export function isDamage(error: unknown): boolean {
  if (isInstanceLost(error)) return false;
  return !/Too many open files|Permission denied|No space left|Disk quota|Out of Memory|Unique file handle conflict/i.test(
    String(error),
  );
}

/** Whether a row's contents are to blame; messages about those quote them. */
export function isDataError(error: unknown): boolean {
  if (error instanceof OversizedRowError) return true;
  if (error instanceof pg.DatabaseError) return /^(2[23]|0A)/.test(error.code ?? '');
  return /^(Error: )?(Conversion|Invalid Input|Out of Range|Constraint) Error/i.test(
    firstLine(error),
  );
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text.split('\n', 1)[0]?.slice(0, 300) ?? '';
}
