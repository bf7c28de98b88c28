import { type MappedColumn, mappedRows } from './mapped-rows.ts';
import {
  keyTypeOf,
  type MappedView,
  type Mapping,
  numberTables,
  storedTables,
} from './mapping-definition.ts';

/** Rows of a view: those of some external ids, or the next ones in the order of external ids. */
export type Selection = { readonly keys: readonly string[] } | Range;

/** At most `limit` rows after one external id, and up to another, which is included. */
export type Range = {
  readonly after: string | null;
  readonly until: string | null;
  readonly limit: number;
};

/** The most external ids that one statement finds without a row of the view, for each row of a range. */
const maxMissing = 20;

/** The row that the statement returns. */
export type MapResult = {
  /** The rows that the selection has in the view, and the last external id of them. */
  readonly selected: bigint;
  readonly last: string | null;
  /** The last external id without a row of the view if a range has more of them. */
  readonly lastMissing: string | null;
  readonly written: bigint;
  readonly refused: bigint;
  /** External ids that had no stored row. */
  readonly added: readonly string[];
  readonly gone: Gone;
};

/** Stored rows of a selection that the view does not have, or has in another organization. */
export type Gone = readonly {
  readonly key: string;
  readonly id: string;
  readonly organization: string;
}[];

/** For an insert into `mapping_failures as failure`: a row keeps the time since which it fails in this way. */
export const replaceFailure = `on conflict (view, external_id) do update
      set column_name = excluded.column_name, reason = excluded.reason, failed_at = now()
      where (failure.column_name, failure.reason) is distinct from (excluded.column_name, excluded.reason)`;

/**
 * One statement that maps the selected rows: reads the view once, numbers new external ids, and writes
 * the stored rows that differ. It deletes nothing. Without a difference nothing is written or locked.
 * Without `offset 0`, Postgres would evaluate a subquery of the view wherever its column is used, six
 * times for an amount.
 */
export function mapStatement(
  mapping: Mapping,
  view: MappedView,
  selection: Selection,
): { readonly text: string; readonly values: readonly unknown[] } {
  const numbers = numberTables[view];
  const stored = storedTables[view];
  const { columns, selectList } = mappedRows(mapping, view, { areRepeatedRefused: true });
  const { where, missing, values } = conditions(keyTypeOf(mapping, view), selection);
  const isPurchases = view === 'mapped_purchases';
  const maxRows = 'limit' in selection ? maxMissing * selection.limit : null;
  const sameOrganization = 'stored.organization_id = assigned.organization_id';
  const written = ['organization_id', ...(isPurchases ? ['customer_id'] : []), ...names(columns)];
  // `on conflict` costs new rows a tenth.
  const insertDiffering = `insert into ${stored} (id, ${written.join(', ')})
      select id, ${written.map(insertedValue).join(', ')} from differing`;
  const text = `
    with selected as materialized (
      select ${selectList} from (select * from ${view} as v ${where} offset 0) as v
    ),
    bounds as materialized (
      select count(*) as selected,
        (select external_id from selected order by external_id desc limit 1) as last
      from selected
    ),
    ${isPurchases ? purchasesWithCustomers : acceptedCustomers},
    assigned as materialized (
      select accepted.*, known.id is null as is_unnumbered, coalesce(known.id,
          nextval((select pg_get_serial_sequence('${stored}', 'id')::regclass))) as id
          ${isPurchases ? ', known.customer_external_id as known_customer' : ''}
      from accepted left join ${one(numbers, 'known', 'external_id', 'accepted.external_id')} on true
    ),
    numbered as (
      insert into ${numbers} (external_id, id${isPurchases ? ', customer_external_id' : ''})
      select external_id, id${isPurchases ? ', customer_external_id' : ''} from assigned where is_unnumbered
    ),
    ${isPurchases ? `${renumbered},` : ''}
    differing as materialized (
      select stored.id is null as is_new, stored.created_at as stored_created_at,
        stored.organization_id as left_organization_id, assigned.*
      from assigned left join ${one(stored, 'stored', 'id', 'assigned.id')} on true
      where stored.id is null or (${isPurchases ? 'true' : sameOrganization})
        and (${written.map((name) => `stored.${name}`).join(', ')})
          is distinct from (${written.map(assignedValue).join(', ')})
    ),
    inserted as (
      ${insertDiffering} where is_new returning id
    ),
    updated as (
      ${insertDiffering} where not is_new
      on conflict (id) do update
        set ${written.map((name) => `${name} = excluded.${name}`).join(', ')}, updated_at = now()
      returning id
    ),
    changed as (
      select organization_id from differing
      union
      select left_organization_id from differing where left_organization_id is not null
    ),
    known as (
      ${isPurchases ? knownWithGuests : knownOrganizations}
    ),
    cleared as (
      delete from mapping_failures as failure using accepted
      where view = '${view}' and failure.external_id = accepted.external_id::text
    ),
    refused as (
      insert into mapping_failures as failure (view, external_id, column_name, reason)
      select distinct '${view}', external_id::text, refusal[1], refusal[2] from selected where refusal is not null
      ${replaceFailure}
    ),
    missing as materialized (
      ${missing.map((range) => `select external_id from ${numbers} as numbers where ${range}`).join(' union all ')}
      except all
      select external_id from selected
      ${maxRows === null ? '' : `order by external_id limit ${maxRows}`}
    ),
    gone as (
      select missing.external_id::text as key, stored.id, stored.organization_id as organization
      from missing
        cross join ${one(numbers, 'numbers', 'external_id', 'missing.external_id')}
        cross join ${one(stored, 'stored', 'id', 'numbers.id')}
      ${isPurchases ? '' : movedCustomers}
    )
    select bounds.selected, bounds.last::text as last,
      (${maxRows === null ? 'null' : `select external_id::text from missing order by external_id offset ${maxRows - 1}`}) as "lastMissing",
      (select count(*) from inserted) + (select count(*) from updated) as written,
      (select count(*) from selected where refusal is not null) as refused,
      array(select external_id::text from differing where is_new) as added,
      coalesce((select json_agg(json_build_object(
        'key', key, 'id', id::text, 'organization', organization::text)) from gone), '[]') as gone
    from bounds`;
  return { text, values };
}

const names = (columns: readonly MappedColumn[]): string[] => columns.map(({ name }) => name);

/** A stored `created_at` stays if the view has none for a row. */
const assignedValue = (name: string): string =>
  name === 'created_at' ? 'coalesce(assigned.created_at, stored.created_at)' : `assigned.${name}`;
const insertedValue = (name: string): string =>
  name === 'created_at' ? 'coalesce(created_at, stored_created_at, now())' : name;

/** The row of a table with this key, by its index, whatever the planner expects. */
const one = (table: string, alias: string, key: string, value: string): string =>
  `lateral (select * from ${table} as wanted where wanted.${key} = ${value} limit 1) as ${alias}`;

const acceptedCustomers = 'accepted as (select * from selected where refusal is null)';

/**
 * The customer of a purchase is the organization's guest if the purchase has none, or one that is not
 * mapped in its organization.
 */
const purchasesWithCustomers = `resolved as materialized (
      select selected.*, coalesce(customers.id, guest_customer_id) as known_customer_id
      from selected
        left join ${one('customer_numbers', 'numbers', 'external_id', 'customer_external_id')} on true
        left join ${one('customers', 'customers', 'id', 'numbers.id')}
          on customers.organization_id = selected.organization_id
        left join ${one('mapped_organizations', 'known', 'organization_id', 'selected.organization_id')} on true
      where refusal is null
    ),
    guests as (
      insert into customers (organization_id)
      select distinct organization_id from resolved where known_customer_id is null
      returning id, organization_id
    ),
    accepted as (
      select resolved.*, coalesce(known_customer_id, guests.id) as customer_id
      from resolved left join guests using (organization_id)
    )`;

/** By a list, because Postgres reads all numbers for a join of thousands. */
const renumbered = `relinked as materialized (
      select external_id, customer_external_id from assigned
      where not is_unnumbered and known_customer is distinct from customer_external_id
    ),
    renumbered as (
      update purchase_numbers as numbers set customer_external_id = relinked.customer_external_id
      from relinked
      where numbers.external_id = any (array(select external_id from relinked))
        and numbers.external_id = relinked.external_id
    )`;

/** Organizations whose row stays as it is are not locked: totals.ts changes it as well. */
const knownOrganizations = `insert into mapped_organizations as known (organization_id)
      select organization_id from changed
      where not exists (
        select from mapped_organizations as before
        where before.organization_id = changed.organization_id and are_totals_due)
      on conflict (organization_id) do update set are_totals_due = true`;

const knownWithGuests = `insert into mapped_organizations as known (organization_id, guest_customer_id)
      select organization_id, guests.id from changed left join guests using (organization_id)
      where guests.id is not null or not exists (
        select from mapped_organizations as before
        where before.organization_id = changed.organization_id and are_totals_due)
      on conflict (organization_id) do update set are_totals_due = true,
        guest_customer_id = coalesce(excluded.guest_customer_id, known.guest_customer_id)`;

/** Customers that are in another organization now, and are stored again. */
const movedCustomers = `union all
      select accepted.external_id::text, stored.id, stored.organization_id
      from accepted
        cross join ${one('customer_numbers', 'numbers', 'external_id', 'accepted.external_id')}
        cross join ${one('customers', 'stored', 'id', 'numbers.id')}
      where stored.organization_id <> accepted.organization_id`;

function conditions(keyType: string, selection: Selection) {
  if ('keys' in selection) {
    const isSelected = (column: string) => `${column} = any ($1::text[]::${keyType}[])`;
    return {
      where: `where ${isSelected('v.external_id')}`,
      missing: [isSelected('numbers.external_id')],
      values: [selection.keys],
    };
  }
  const { within, values } = rangeConditions(keyType, selection);
  const ofNumbers = within('numbers.external_id');
  return {
    // All rows of the last external id, so that repeated ones are found.
    where: `where ${within('v.external_id')} order by v.external_id fetch first $1 rows with ties`,
    // Two ranges, because Postgres reads all numbers for a bound that may be missing.
    missing: [
      `(select selected >= $1 from bounds) and ${ofNumbers}
        and numbers.external_id <= (select last from bounds)`,
      `(select selected < $1 from bounds) and ${ofNumbers}`,
    ],
    values,
  };
}

/** The condition that the external id in a column is within a range. The first value is the range's limit. */
export function rangeConditions(keyType: string, { after, until, limit }: Range) {
  const values: (string | number)[] = [limit];
  const bounds = [
    { operator: '>', key: after },
    { operator: '<=', key: until },
  ].flatMap(({ operator, key }) =>
    key === null ? [] : `${operator} $${values.push(key)}::${keyType}`,
  );
  const within = (column: string): string =>
    ['is not null', ...bounds].map((bound) => `${column} ${bound}`).join(' and ');
  return { within, values };
}
