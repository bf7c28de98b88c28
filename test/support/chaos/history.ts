import sql, { raw } from 'sql-template-tag';
import {
  type Connection,
  type Database,
  exactTypes,
  withConnection,
} from '../../../src/postgres/pool.ts';
import { purchaseSelectList } from '../../../src/postgres/purchase-select-list.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { addShop } from './writers.ts';

/**
 * All that ever happened to purchases, written down beside them by triggers: what
 * an organization held at any snapshot can be told from it, without the change log
 * that is being tested. An entry without content is a purchase that went; one
 * without an organization is a TRUNCATE.
 */
export async function keepHistory(database: Database): Promise<void> {
  await database.query(`
    -- Not the type of purchases itself: that table may be dropped and created again.
    create table purchase_content (like purchases);
    create table history (
      sequence bigint generated always as identity,
      transaction_id xid8 not null default pg_current_xact_id(),
      organization_id bigint,
      purchase_id bigint,
      content purchase_content
    );
    create index on history (organization_id, purchase_id, sequence desc);
    create function keep_history() returns trigger language plpgsql as $$
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
  await attachHistory(database);
}

/** Also of what is written with session_replication_role = replica. */
export async function attachHistory(database: Database | Connection): Promise<void> {
  await database.query(`
    create trigger keep_history after insert or update or delete on purchases
      for each row execute function keep_history();
    create trigger keep_history_of_truncate after truncate on purchases
      for each statement execute function keep_history();
    alter table purchases enable always trigger keep_history;
    alter table purchases enable always trigger keep_history_of_truncate`);
}

const shops = 3;

/** A few shops, in a database that keeps their history. */
export async function furnish(database: Database, random: RandomSource): Promise<void> {
  await withConnection(database, async (connection) => {
    for (let shop = 0; shop < shops; shop += 1) await addShop(connection, random);
  });
}

/** A purchase's values in the order of `purchaseColumns`. */
export type Row = readonly (bigint | string | null)[];

/** What the organization held at a snapshot. */
export async function purchasesAt(
  database: Database,
  organizationId: bigint,
  snapshot: string,
): Promise<Row[]> {
  const { text, values } = sql`
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
    from (select (content).* from latest where not (content is null)) as purchases`;
  return (
    await database.query<(bigint | string | null)[]>({
      text,
      values,
      rowMode: 'array',
      types: exactTypes,
    })
  ).rows;
}

/** What the organization holds now. */
export async function purchasesNow(database: Database, organizationId: bigint): Promise<Row[]> {
  const { text, values } = sql`
    select ${raw(purchaseSelectList)} from purchases where organization_id = ${organizationId}`;
  return (
    await database.query<(bigint | string | null)[]>({
      text,
      values,
      rowMode: 'array',
      types: exactTypes,
    })
  ).rows;
}

/**
 * Shortens the history to what there is. Only while nobody writes and everything
 * is published: older snapshots then show the same.
 */
export async function shortenHistory(database: Database): Promise<void> {
  await database.query(`
    begin;
    truncate history;
    -- The oldest transaction there is: every snapshot sees it.
    insert into history (transaction_id, organization_id, purchase_id, content)
      select '3', organization_id, id, row(purchases.*)::purchase_content from purchases;
    commit`);
}
