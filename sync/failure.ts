import pg from 'pg';
import { purchaseColumns } from '../src/domain/purchase.ts';
import { isCorruption, isInstanceLost } from '../src/duckdb/damage.ts';
import { isOutOfMemory } from '../src/duckdb/memory.ts';
import { duckdbErrorType, errorText } from '../src/error-text.ts';
import { OperatorError } from '../src/operator-error.ts';
import type { CaptureProblem } from '../src/postgres/capture.ts';
import { describeDatabaseFailure, type TableRights } from '../src/postgres/database-failure.ts';

/** What went wrong, for an operator: never with the contents of a row. */
export type Failure = { readonly message: string; readonly advice: string };

/** A purchase with a value that cannot be copied, named by its public id. */
export class InvalidPurchaseError extends Error {
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

/** Changes of purchases may not be in the change log. */
export class CaptureError extends Error {
  readonly advice: string;
  constructor({ message, advice }: CaptureProblem) {
    super(message);
    this.advice = advice;
  }
}

/** What the worker does with tables. */
export const workerRights: TableRights = {
  organizations: 'select',
  purchases: 'select',
  purchase_changes: 'select, insert, delete',
  purchase_change_pruning: 'select, insert, update, delete',
  purchase_change_readers: 'select, insert, update, delete',
};

const tryAgain = 'The worker tries again.';
const goesOn = 'The worker then goes on by itself.';
const correctIt = `Correct it in Postgres. ${goesOn}`;
const waitForIt = 'The worker goes on by itself as soon as that is over.';

/** A sentence about the cause, and one about what to do. */
export function describeFailure(error: unknown): Failure {
  const text = errorText(error);
  const code = String((error as { code?: unknown } | null)?.code ?? '');
  if (error instanceof OperatorError) return { message: error.message, advice: waitForIt };
  if (code === 'ENOSPC' || code === 'EDQUOT' || /No space left|Disk quota/i.test(text)) {
    return {
      message: 'The disk that holds DATA_DIR is full.',
      advice: `Free space on it, or move DATA_DIR. ${waitForIt}`,
    };
  }
  if (error instanceof CaptureError) return { message: error.message, advice: error.advice };
  if (error instanceof InvalidPurchaseError) {
    return { message: error.message, advice: correctIt };
  }
  if (error instanceof OversizedRowError) return { message: error.message, advice: correctIt };
  if (isDataError(error)) {
    const column = columnOf(error);
    return {
      message: `A purchase holds a value that cannot be copied${column === null ? '' : ` in ${column}`}.`,
      advice: correctIt,
    };
  }
  const ofDatabase = describeDatabaseFailure(error, workerRights);
  if (ofDatabase !== null) {
    const { message, advice } = ofDatabase;
    return { message, advice: `${advice} ${goesOn}` };
  }
  if (error instanceof pg.DatabaseError) {
    return { message: `Postgres refused: ${text} (SQLSTATE ${code}).`, advice: tryAgain };
  }
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
  if (
    /EACCES|EPERM|EROFS|Permission denied|read-only file system/i.test(`${code} ${text}`) ||
    // Only errors of files have a path.
    typeof (error as { path?: unknown } | null)?.path === 'string'
  ) {
    return {
      message: `DATA_DIR cannot be written to: ${text}`,
      advice: 'Let the user that the worker runs as read and write all of it.',
    };
  }
  return { message: text, advice: tryAgain };
}

/** Whether a row's contents are to blame; messages about those quote them. */
export function isDataError(error: unknown): boolean {
  if (error instanceof OversizedRowError) return true;
  if (error instanceof pg.DatabaseError) return /^(2[23]|0A)/.test(error.code ?? '');
  const type = duckdbErrorType(error);
  return type !== null && /^(Conversion|Invalid Input|Out of Range|Constraint)$/i.test(type);
}

/** The purchase's column that an error names; a value that it quotes is not taken for one. */
function columnOf(error: unknown): string | null {
  const named = /column "?([a-z_]+)"?/i.exec(String(error))?.[1];
  return purchaseColumns.find(({ name }) => name === named)?.name ?? null;
}
