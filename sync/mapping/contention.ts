import pg from 'pg';

/** Another process maps, holds a lock, or has changed the same row: a repetition may succeed. */
export const isContention = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && /^(40001|40P01|55P03)$/.test(error.code ?? '');
