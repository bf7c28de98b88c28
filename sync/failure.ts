import pg from 'pg';
import { isCorruption, isInstanceLost } from '../src/engines/duckdb/damage.ts';
import { isOutOfMemory } from '../src/engines/duckdb/memory.ts';
import { OperatorError } from '../src/operator-error.ts';
import type { CaptureProblem } from '../src/postgres/capture.ts';

/** What went wrong, for an operator: never with the contents of a row. */
export type Failure = { readonly message: string; readonly advice: string };

/** A purchase with a value that no answer could show, named by its public id. */
export class PoisonedPurchaseError extends Error {
  constructor(purchase: string) {
    super(`Purchase ${purchase} holds a value that cannot be copied.`);
  }
}

/** Changes of purchases may not be in the change log. */
export class CaptureError extends Error {
  readonly advice: string;
  constructor({ message, advice }: CaptureProblem) {
    super(message);
    this.advice = advice;
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
  if (error instanceof CaptureError) return { message: error.message, advice: error.advice };
  if (error instanceof PoisonedPurchaseError) {
    return { message: error.message, advice: correctIt };
  }
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

/** Whether a row's contents are to blame; messages about those quote them. */
export function isDataError(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(2[23]|0A)/.test(error.code ?? '');
  return /^(Error: )?(Conversion|Invalid Input|Out of Range|Constraint) Error/i.test(
    firstLine(error),
  );
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text.split('\n', 1)[0]?.slice(0, 300) ?? '';
}
