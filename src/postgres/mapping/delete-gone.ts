import type { Connection } from '../connection/pool.ts';
import { byOrganization, guardDeletions, hold } from './deletions.ts';
import { drawingNumbers } from './drawn-numbers.ts';
import { type Gone, replaceFailure } from './map-statement.ts';
import {
  keyTypeOf,
  type MappedView,
  type Mapping,
  numberTables,
  storedTables,
} from './mapping-definition.ts';

type DeleteOptions = {
  /** Deletes rows although they are many. */
  readonly acceptDeletions: boolean;
  readonly since: Date | null;
};

/**
 * Deletes rows that the views no longer have, unless the guard holds them, and returns their number. Each row
 * is deleted by its number, and none by a cascade: the remaining purchases of a customer become those of the
 * guest first. A customer stays if it has purchases that are held, or that another writer has written.
 */
export async function deleteGone(
  connection: Connection,
  mapping: Mapping,
  gone: Readonly<Record<MappedView, Gone>>,
  { acceptDeletions, since }: DeleteOptions,
): Promise<number> {
  const allowedOf = async (view: MappedView): Promise<Gone> =>
    acceptDeletions ? gone[view] : guardDeletions(connection, view, gone[view], since);
  const purchases = await allowedOf('mapped_purchases');
  let deleted = await deleteRows(connection, mapping, 'mapped_purchases', purchases);
  const allowed = new Set(purchases);
  const held = gone.mapped_purchases.filter((row) => !allowed.has(row));
  const customers = await keepOwners(
    connection,
    mapping,
    await allowedOf('mapped_customers'),
    held,
  );
  await moveToGuests(connection, customers);
  deleted += await deleteRows(connection, mapping, 'mapped_customers', customers);
  return deleted;
}

async function deleteRows(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  gone: Gone,
): Promise<number> {
  if (gone.length === 0) return 0;
  const stored = storedTables[view];
  const { rows } = await connection.query<{ deleted: number }>(
    `with gone as materialized (select * from ${unnestedGone(mapping, view)}),
     deleted as (
       delete from ${stored} as stored
       where id = any ($1::bigint[]) and (id, organization_id) in (select id, organization_id from gone)
         ${view === 'mapped_customers' ? 'and not exists (select from purchases where customer_id = stored.id)' : ''}
       returning id, organization_id
     ),
     forgotten as (
       update ${numberTables[view]} as numbers set is_stored = false
       from gone join deleted using (id, organization_id)
       where numbers.external_id = any ($2::text[]::${keyTypeOf(mapping, view)}[])
         and numbers.external_id = gone.external_id and numbers.organization_id = gone.organization_id
     ),
     due as (
       update mapped_organizations as known set are_totals_due = true
       from (select distinct organization_id from deleted) as changed
       where known.organization_id = changed.organization_id
     )
     select count(*)::int as deleted from deleted`,
    valuesOf(gone),
  );
  return rows[0]?.deleted ?? 0;
}

/** A relation of rows, with the first three parameters as its columns. */
const unnestedGone = (mapping: Mapping, view: MappedView): string =>
  `unnest($1::bigint[], $2::text[]::${keyTypeOf(mapping, view)}[], $3::bigint[])
     as gone (id, external_id, organization_id)`;

const valuesOf = (gone: Gone): string[][] => [
  gone.map(({ id }) => id),
  gone.map(({ key }) => key),
  gone.map(({ organization }) => organization),
];

/**
 * Returns the customers without purchases that stay theirs. The others are held with their purchases, or
 * reported.
 */
async function keepOwners(
  connection: Connection,
  mapping: Mapping,
  customers: Gone,
  held: Gone,
): Promise<Gone> {
  if (customers.length === 0) return [];
  const { rows } = await connection.query<{ id: string; hasHeld: boolean; hasOther: boolean }>(
    `with gone as materialized (select * from ${unnestedGone(mapping, 'mapped_customers')}),
     own as materialized (
       select numbers.id from gone cross join lateral (
         select id from ${numberTables.mapped_purchases} as numbers
         where numbers.customer_external_id = gone.external_id
           and numbers.organization_id = gone.organization_id and is_stored offset 0) as numbers
     )
     select customer_id::text as id,
       bool_or(id in (select unnest($4::bigint[]))) as "hasHeld",
       bool_or(id not in (select id from own)) as "hasOther"
     from purchases where customer_id = any ($1::bigint[]) group by customer_id`,
    [...valuesOf(customers), held.map(({ id }) => id)],
  );
  const owners = new Map(rows.map(({ id, ...owner }) => [id, owner]));
  const ofHeld = customers.filter(({ id }) => owners.get(id)?.hasHeld === true);
  for (const [organization, { length }] of byOrganization(ofHeld)) {
    await hold(connection, 'mapped_customers', organization, length);
  }
  const ofOthers = customers.filter(({ id }) => owners.get(id)?.hasOther === true);
  if (ofOthers.length > 0) await reportOwners(connection, ofOthers);
  const kept = new Set([...ofHeld, ...ofOthers]);
  return customers.filter((row) => !kept.has(row));
}

const reportOwners = (connection: Connection, customers: Gone) =>
  connection.query(
    `insert into mapping_failures as failure (view, external_id, reason)
     select distinct 'mapped_customers', key, 'is gone from the view, but has purchases of another writer'
     from unnest($1::text[]) as key ${replaceFailure}`,
    [customers.map(({ key }) => key)],
  );

/** Makes the guest of their organization the customer of the purchases of these customers. */
async function moveToGuests(connection: Connection, customers: Gone): Promise<void> {
  if (customers.length === 0) return;
  await drawingNumbers(connection, () =>
    connection.query(
      `with moving as materialized (
         select id, organization_id from purchases where customer_id = any ($1::bigint[])
       ),
       guests as (
         insert into customers (organization_id)
         select distinct organization_id from moving
         where not exists (
           select from mapped_organizations as known
           where known.organization_id = moving.organization_id and guest_customer_id is not null)
         returning id, organization_id
       ),
       known as (
         insert into mapped_organizations (organization_id, guest_customer_id)
         select organization_id, id from guests
         on conflict (organization_id) do update set guest_customer_id = excluded.guest_customer_id
       )
       update purchases set customer_id = coalesce(mapped.guest_customer_id, guests.id), updated_at = now()
       from moving
         left join mapped_organizations as mapped on mapped.organization_id = moving.organization_id
         left join guests on guests.organization_id = moving.organization_id
       where purchases.id = any (array(select id from moving)) and purchases.id = moving.id`,
      [customers.map(({ id }) => id)],
    ),
  );
}
