import sql, { raw, type Sql } from 'sql-template-tag';
import {
  type Connection,
  type Database,
  exactTypes,
  withConnection,
} from '../../../src/postgres/connection/pool.ts';
import { purchaseSelectList } from '../../../src/postgres/lists/purchase-select-list.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { addShop } from './writers.ts';

/**
 * Creates a table with the history of all purchases, which triggers write. The purchases of an
 * organization at any snapshot follow from it, without the change log that is being tested. An
 * entry without content is a DELETE. An entry without an organization is a TRUNCATE.
 */
export async function recordHistory(database: Database): Promise<void> {
  await database.query(`
    -- The type does not depend on purchases, which a fault drops and creates again.
    create table purchase_content (like purchases);
    create table history (
      sequence bigint generated always as identity,
      transaction_id xid8 not null default pg_current_xact_id(),
      organization_id bigint,
      purchase_id bigint,
      content purchase_content
    );
    create index on history (organization_id, purchase_id, sequence desc);
    create function record_history() returns trigger language plpgsql as $$
    begin
      if tg_op = 'TRUNCATE' then
        insert into history default values;
        return null;
      end if;
      if tg_op <> 'INSERT'
        and (tg_op = 'DELETE' or (old.organization_id, old.id) <> (new.organization_id, new.id))
      then
        insert into history (organization_id, purchase_id) values (old.organization_id, old.id);
      end if;
      if tg_op <> 'DELETE' then
        insert into history (organization_id, purchase_id, content)
          values (new.organization_id, new.id, row(new.*)::purchase_content);
      end if;
      return null;
    end $$;
`);
  await createHistoryTriggers(database);
}

/** The triggers fire with session_replication_role = replica too. */
export async function createHistoryTriggers(database: Database | Connection): Promise<void> {
  await database.query(`
    create trigger record_history after insert or update or delete on purchases
      for each row execute function record_history();
    create trigger record_truncate after truncate on purchases
      for each statement execute function record_history();
    alter table purchases enable always trigger record_history;
    alter table purchases enable always trigger record_truncate`);
}

const shops = 3;

export async function addShops(database: Database, random: RandomSource): Promise<void> {
  await withConnection(database, async (connection) => {
    for (let shop = 0; shop < shops; shop += 1) await addShop(connection, random);
  });
}

/** A purchase's values in the order of `purchaseColumns`. */
export type Row = readonly (bigint | string | null)[];

/** The purchases of the organization at a snapshot. */
export async function purchasesAt(
  database: Database,
  organizationId: bigint,
  snapshot: string,
): Promise<Row[]> {
  return readRows(
    database,
    sql`
    with visible as materialized (
      select * from history
      where (organization_id = ${organizationId} or organization_id is null)
        and pg_visible_in_snapshot(transaction_id, ${snapshot}::pg_snapshot)
    ), latest as (
      select distinct on (purchase_id) content from visible
      where organization_id is not null and sequence > (
        select coalesce(max(sequence), 0) from visible where organization_id is null)
      order by purchase_id, sequence desc
    )
    select ${raw(purchaseSelectList)}
    from (select (content).* from latest where not (content is null)) as purchases`,
  );
}

/** The present purchases of the organization. */
export const purchasesNow = (database: Database, organizationId: bigint): Promise<Row[]> =>
  readRows(
    database,
    sql`
      select ${raw(purchaseSelectList)} from purchases where organization_id = ${organizationId}`,
  );

async function readRows(database: Database, { text, values }: Sql): Promise<Row[]> {
  const query = { text, values, rowMode: 'array', types: exactTypes } as const;
  return (await database.query<(bigint | string | null)[]>(query)).rows;
}

/**
 * Reduces the history to the present purchases. Call it while no transaction writes and all changes
 * are published: all snapshots in use then show the same purchases.
 */
export async function compactHistory(database: Database): Promise<void> {
  await database.query(`
    begin;
    truncate history;
    -- Every snapshot sees the oldest transaction.
    insert into history (transaction_id, organization_id, purchase_id, content)
      select '3', organization_id, id, row(purchases.*)::purchase_content from purchases;
    commit`);
}
