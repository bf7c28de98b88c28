import pg from 'pg';

const hasCode = (error: unknown, codes: RegExp): boolean =>
  error instanceof pg.DatabaseError && codes.test(error.code ?? '');

/** Another transaction has changed the same row: a repetition in a new snapshot may succeed. */
export const isConflict = (error: unknown): boolean => hasCode(error, /^(40001|40P01)$/);

/** A conflict, or another process maps or holds a lock: a repetition may succeed. */
export const isContention = (error: unknown): boolean =>
  isConflict(error) || hasCode(error, /^55P03$/);
