import type { Connection } from '../../../src/postgres/connection/pool.ts';

/** Whether the triggers that append to the change log are enabled. */
export type TriggerState = 'with' | 'without';

const actions: Readonly<Record<TriggerState, string>> = {
  // As src/postgres/capture/capture.sql leaves them: the row trigger fires for replicas alone.
  with: `case when tgtype & 1 = 1 then 'enable replica' else 'enable' end`,
  without: `'disable'`,
};

/** Does not change foreign keys. */
export async function switchTriggers(connection: Connection, state: TriggerState): Promise<void> {
  await connection.query(`
    do $$
    declare command text;
    begin
      for command in
        select format('alter table purchases %s trigger %I', ${actions[state]}, tgname)
        from pg_trigger where tgrelid = 'purchases'::regclass and not tgisinternal
      loop
        execute command;
      end loop;
    end $$`);
}

type UpdateCounts = { readonly updated: number; readonly updatedHot: number };

/** The number of updates of `purchases` so far, and of those that changed no index (HOT). */
export async function readUpdateCounts(connection: Connection): Promise<UpdateCounts> {
  // Otherwise the view shows counts with a delay.
  await connection.query('select pg_stat_force_next_flush()');
  await connection.query('select pg_stat_clear_snapshot()');
  const { rows } = await connection.query<{ updated: bigint; hot: bigint }>(
    `select n_tup_upd as updated, n_tup_hot_upd as hot
     from pg_stat_user_tables where relid = 'public.purchases'::regclass`,
  );
  const { updated, hot } = rows[0] as { updated: bigint; hot: bigint };
  return { updated: Number(updated), updatedHot: Number(hot) };
}
