import { ClickHouseError } from '@clickhouse/client';
import pg from 'pg';
import { StoreUnavailableError } from '../src/domain/purchase-engine.ts';
import { isCorruption, isInstanceLost } from '../src/duckdb/damage.ts';
import { isOutOfMemory } from '../src/duckdb/memory.ts';
import type { CaptureProblem } from '../src/postgres/capture/capture.ts';
import {
  describeDatabaseFailure,
  type TableRights,
} from '../src/postgres/connection/database-failure.ts';
import { mappingStatusRights } from '../src/postgres/mapping/mapping-status.ts';
import { LackOfSpaceError } from '../src/process/disk-space.ts';
import { duckdbErrorType, errorText } from '../src/process/error-text.ts';
import { fileAdvice } from '../src/process/file-advice.ts';
import { isOutOfFiles } from '../src/process/open-files.ts';
import { OperatorError } from '../src/process/operator-error.ts';
import { DamagedLogError } from '../src/purchase-store/format/log.ts';

/** The cause and the remedy of a failure, without values of rows. */
export type Failure = { readonly message: string; readonly advice: string };

/** A purchase exceeds `maxPurchaseLineBytes`. */
export class OversizedRowError extends Error {}

/** CURRENT is invalid, or names a file that does not exist. */
export class DamagedFilesError extends Error {}

/** The change log may lack changes of purchases. */
export class CaptureError extends Error {
  readonly advice: string;
  constructor({ message, advice }: CaptureProblem) {
    super(message);
    this.advice = advice;
  }
}

const workerRights: TableRights = {
  ...mappingStatusRights,
  purchases: 'select',
  purchase_changes: 'select, insert, delete',
  purchase_change_pruning: 'select, insert, update, delete',
  purchase_change_readers: 'select, insert, update, delete',
};

const retries = 'The worker retries.';
const thenContinues = 'The worker then continues.';

export function describeFailure(error: unknown): Failure {
  const text = errorText(error);
  const code = codeOf(error);
  if (error instanceof OperatorError) return { message: error.message, advice: retries };
  if (isDiskFull(error)) {
    const lack = error instanceof LackOfSpaceError ? `${error.message}. ` : '';
    return {
      // The numbers change with each attempt, and an equal message is logged once.
      message: 'The disk that holds DATA_DIR is full.',
      advice: `${lack}Free space or inodes (df, df -i), or move DATA_DIR. ${thenContinues}`,
    };
  }
  if (error instanceof StoreUnavailableError) {
    return {
      message: `ClickHouse cannot be used: ${text}`,
      advice: `Check the server, and CLICKHOUSE_URL. ${thenContinues}`,
    };
  }
  // The text may quote values.
  if (error instanceof ClickHouseError) {
    return { message: `ClickHouse refused: ${error.type ?? error.code}.`, advice: retries };
  }
  if (error instanceof CaptureError) return { message: error.message, advice: error.advice };
  if (isValueError(error)) {
    return {
      message: 'A purchase holds a value that cannot be copied.',
      advice: `Correct rows that violate a constraint of purchases. ${thenContinues}`,
    };
  }
  if (error instanceof pg.DatabaseError && /^(58|XX00[12])/.test(code)) {
    return {
      message: `Postgres cannot read its files: ${text}.`,
      advice: `Check its disk. Repair or delete the damaged rows, or restore a backup. ${thenContinues}`,
    };
  }
  const ofDatabase = describeDatabaseFailure(error, workerRights);
  if (ofDatabase !== null) {
    const { message, advice } = ofDatabase;
    return { message, advice: `${advice} ${thenContinues}` };
  }
  if (error instanceof pg.DatabaseError) {
    return { message: `Postgres refused: ${text} (SQLSTATE ${code}).`, advice: retries };
  }
  if (isOutOfMemory(error)) {
    return {
      message: 'DuckDB ran out of memory.',
      advice: 'Raise DUCKDB_MEMORY_LIMIT, or lower SYNC_CONCURRENCY.',
    };
  }
  if (isInstanceLost(error)) {
    return { message: 'DuckDB failed and must restart.', advice: 'The worker restarts DuckDB.' };
  }
  if (isFileDamage(error)) {
    return {
      message: `A file is damaged: ${text}`,
      advice: 'The worker rebuilds the file. Check the disk.',
    };
  }
  return describeFileFailure(error, text) ?? { message: text, advice: retries };
}

function describeFileFailure(error: unknown, text: string): Failure | null {
  if (isOutOfFiles(text)) {
    return {
      message: 'The process has too many files open.',
      advice: fileAdvice(error) ?? retries,
    };
  }
  // Of the file system, because errors of connections are described above.
  const isOfFile = typeof (error as { syscall?: unknown } | null)?.syscall === 'string';
  const advice = isOfFile || duckdbErrorType(error) === 'IO' ? fileAdvice(error) : null;
  if (!isOfFile && advice === null) return null;
  return {
    message: `DATA_DIR cannot be written to: ${text}`,
    advice: advice === null ? retries : `${advice} ${thenContinues}`,
  };
}

/** Whether published files are damaged, so that the organization must be loaded. */
export const isFileDamage = (error: unknown): boolean =>
  error instanceof DamagedFilesError || error instanceof DamagedLogError || isCorruption(error);

const codeOf = (error: unknown) => String((error as { code?: unknown } | null)?.code ?? '');

function isDiskFull(error: unknown): boolean {
  return (
    ['ENOSPC', 'EDQUOT'].includes(codeOf(error)) ||
    /No space left|Disk quota/i.test(errorText(error))
  );
}

/**
 * Whether rows of one organization may have caused the error, and other organizations can be read
 * without them. Postgres 13 has XX000 for damaged rows.
 */
export const isDataError = (error: unknown): boolean =>
  isValueError(error) || (error instanceof pg.DatabaseError && /^(58|XX)/.test(error.code ?? ''));

/** Whether a value of a row caused the error. The message of the error may quote the value. */
function isValueError(error: unknown): boolean {
  if (error instanceof OversizedRowError) return true;
  if (error instanceof pg.DatabaseError) return /^(2[23]|0A)/.test(error.code ?? '');
  const type = duckdbErrorType(error);
  return type !== null && /^(Conversion|Invalid Input|Out of Range|Constraint)$/i.test(type);
}
