import pg from 'pg';
import type { Connection } from '../../connection/pool.ts';
import type { MappedView } from '../mapping-definition.ts';

/** What a user should change before the mapping is applied. `apply` refuses errors. */
export type Finding = {
  readonly severity: 'error' | 'warning';
  readonly view: MappedView;
  /** Names the view or the source, and the column. Has no values of rows but external ids. */
  readonly message: string;
  /** The line to write, or what to do. */
  readonly advice: string;
};

const byView =
  (severity: Finding['severity']) =>
  (view: MappedView, message: string, advice: string): Finding => ({
    severity,
    view,
    message,
    advice,
  });
export const error = byView('error');
export const warning = byView('warning');

/** Conditions of the server or the network. Others are faults of the SQL of the user, or of a row. */
const isEnvironmentFailure = ({ code = '' }: pg.DatabaseError): boolean =>
  /^(08|40|53|55|57|58)/.test(code);

/** Runs SQL of the user in a transaction, and returns its error. */
export async function attempt<Result>(
  connection: Connection,
  work: () => Promise<Result>,
): Promise<Result | pg.DatabaseError> {
  await connection.query('savepoint attempt');
  try {
    const result = await work();
    await connection.query('release savepoint attempt');
    return result;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || isEnvironmentFailure(error)) throw error;
    await connection.query('rollback to savepoint attempt');
    return error;
  }
}
