import type { Connection } from '../../../src/postgres/pool.ts';

/** Whether the triggers that append to the change log are at work. */
export type TriggerState = 'with' | 'without';

const statements: Readonly<Record<TriggerState, string>> = {
  // As src/postgres/capture.sql leaves them: the row trigger fires for replicas alone.
  with: changeTriggers(`case when tgtype & 1 = 1 then 'enable replica' else 'enable' end`),
  without: changeTriggers(`'disable'`),
};

function changeTriggers(action: string): string {
  return `
    do $$
    declare command text;
    begin
      for command in
        select format('alter table purchases %s trigger %I', ${action}, tgname)
        from pg_trigger where tgrelid = 'purchases'::regclass and not tgisinternal
      loop
        execute command;
      end loop;
    end $$`;
}

/** Foreign keys and their checks stay as they are. */
export async function switchTriggers(connection: Connection, state: TriggerState): Promise<void> {
  await connection.query(statements[state]);
}

export type UpdateCounts = { readonly updated: number; readonly updatedHot: number };

/** How many rows of `purchases` were updated so far, and how many without touching an index. */
export async function readUpdateCounts(connection: Connection): Promise<UpdateCounts> {
  // Counts reach the view with some delay, unless they are asked to.
  await connection.query('select pg_stat_force_next_flush()');
  await connection.query('select pg_stat_clear_snapshot()');
  const { rows } = await connection.query<{ updated: bigint; hot: bigint }>(
    `select n_tup_upd as updated, n_tup_hot_upd as hot
     from pg_stat_user_tables where relname = 'purchases'`,
  );
  const row = rows[0];
  if (row === undefined) throw new Error('there are no statistics about purchases');
  return { updated: Number(row.updated), updatedHot: Number(row.hot) };
}
