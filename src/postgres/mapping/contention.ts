import pg from 'pg';

const hasCode = (error: unknown, codes: RegExp): boolean =>
  error instanceof pg.DatabaseError && codes.test(error.code ?? '');

/** The table of customers or purchases in which another writer has used a number that was just drawn; or null. */
export const tableOfTakenNumber = (error: unknown): 'customers' | 'purchases' | null =>
  error instanceof pg.DatabaseError && error.code === '23505'
    ? (({ customers_pkey: 'customers', purchases_pkey: 'purchases' } as const)[
        error.constraint ?? ''
      ] ?? null)
    : null;

/** Another transaction has changed the same row, or used the same id: a repetition in a new snapshot may succeed. */
export const isConflict = (error: unknown): boolean =>
  hasCode(error, /^(40001|40P01)$/) || tableOfTakenNumber(error) !== null;

/** A conflict, or another process maps or holds a lock: a repetition may succeed. */
export const isContention = (error: unknown): boolean =>
  isConflict(error) || hasCode(error, /^55P03$/);

/** Repeats work in a new transaction after conflicts. */
export async function repeatAfterConflicts<Result>(work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
}
