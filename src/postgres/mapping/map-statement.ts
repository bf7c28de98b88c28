import { hasNoOrganization, mappedRows } from './mapped-rows.ts';
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

/** Stored rows of a selection that the view does not have in their organization. */
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
 * the stored rows that differ. It deletes nothing, and writes only rows whose number it draws, or that the
 * number table has for their organization. Without a difference nothing is written or locked.
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
  const written = [...(isPurchases ? ['customer_id'] : []), ...columns.map(({ name }) => name)];
  const compared = ['organization_id', ...written];
  // `on conflict` costs new rows a tenth.
  const insertDiffering = `insert into ${stored} as stored (id, ${compared.join(', ')})
      select id, ${compared.map(insertedValue).join(', ')} from differing`;
  const key = isPurchases
    ? 'external_id, organization_id, id, customer_external_id'
    : 'external_id, organization_id, id';
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
      select accepted.*, known.id as known_id, known.is_stored
        ${isPurchases ? ', known.customer_external_id as known_customer' : ''}
      from accepted left join ${one(numbers, 'known', isRow('accepted'))} on true
    ),
    differing as materialized (
      select stored.id is null as is_new, stored.created_at as stored_created_at,
        case when stored.id is not null
            or known_id is not null and not exists (select from ${stored} as other where other.id = known_id)
          then known_id else nextval((select pg_get_serial_sequence('${stored}', 'id')::regclass)) end as id, assigned.*
      from assigned left join ${one(
        stored,
        'stored',
        `wanted.id = assigned.known_id and assigned.is_stored
          and wanted.organization_id = assigned.organization_id`,
      )} on true
      where stored.id is null
        or (${compared.map((name) => `stored.${name}`).join(', ')})
          is distinct from (${compared.map(assignedValue).join(', ')})
    ),
    numbered as (
      insert into ${numbers} (${key}) select ${key} from differing where known_id is null
    ),
    renumbering as materialized (
      select ${key} from differing where is_new and known_id is not null
      ${isPurchases ? relinked : ''}
    ),
    renumbered as (
      update ${numbers} as numbers
      set id = renumbering.id, is_stored = true ${isPurchases ? ', customer_external_id = renumbering.customer_external_id' : ''}
      from renumbering
      where numbers.external_id = any (array(select external_id from renumbering))
        and numbers.external_id = renumbering.external_id and numbers.organization_id = renumbering.organization_id
    ),
    inserted as (
      ${insertDiffering} where is_new returning id
    ),
    updated as (
      ${insertDiffering} where not is_new
      on conflict (id) do update
        set ${written.map((name) => `${name} = excluded.${name}, `).join('')} updated_at = now()
        where stored.organization_id = excluded.organization_id
      returning id
    ),
    changed as (
      select distinct organization_id from differing
    ),
    known as (
      ${isPurchases ? knownWithGuests : knownOrganizations}
    ),
    cleared as (
      delete from mapping_failures as failure using accepted
      where view = '${view}' and failure.external_id = accepted.external_id::text
        and accepted.external_id not in (select external_id from selected where refusal is not null)
    ),
    refused as (
      insert into mapping_failures as failure (view, external_id, column_name, reason)
      select distinct on (external_id) '${view}', external_id::text, refusal[1], refusal[2]
      from selected where refusal is not null
      ${replaceFailure}
    ),
    missing as materialized (
      select external_id, organization_id from (
        ${missing.map((range) => `select external_id, organization_id from ${numbers} as numbers where is_stored and ${range}`).join(' union all ')}
        except all
        select external_id, organization_id from selected
      ) as numbers
      where external_id not in (select external_id from selected where ${hasNoOrganization})
      ${maxRows === null ? '' : `order by external_id fetch first ${maxRows} rows with ties`}
    ),
    gone as (
      select missing.external_id::text as key, stored.id, stored.organization_id as organization
      from missing
        cross join ${one(numbers, 'numbers', isRow('missing'))}
        cross join ${one(stored, 'stored', 'wanted.id = numbers.id and wanted.organization_id = numbers.organization_id')}
    )
    select bounds.selected, bounds.last::text as last,
      (${maxRows === null ? 'null' : `select external_id::text from missing order by external_id offset ${maxRows - 1} limit 1`}) as "lastMissing",
      (select count(*) from inserted) + (select count(*) from updated) as written,
      (select count(*) from selected where refusal is not null) as refused,
      array(select external_id::text from differing where is_new) as added,
      coalesce((select json_agg(json_build_object(
        'key', key, 'id', id::text, 'organization', organization::text)) from gone), '[]') as gone
    from bounds`;
  return { text, values };
}

/** A stored `created_at` stays if the view has none for a row. */
const assignedValue = (name: string): string =>
  name === 'created_at' ? 'coalesce(assigned.created_at, stored.created_at)' : `assigned.${name}`;
const insertedValue = (name: string): string =>
  name === 'created_at' ? 'coalesce(created_at, stored_created_at, now())' : name;

/** The row of a table that meets a condition, by its index, whatever the planner expects. */
const one = (table: string, alias: string, condition: string): string =>
  `lateral (select * from ${table} as wanted where ${condition} limit 1) as ${alias}`;

/** The condition that a number is that of a row of the view. */
const isRow = (row: string): string =>
  `wanted.external_id = ${row}.external_id and wanted.organization_id = ${row}.organization_id`;

const acceptedCustomers = 'accepted as (select * from selected where refusal is null)';

/**
 * The customer of a purchase is the organization's guest if the purchase has none, or one that is not
 * mapped in its organization.
 */
const purchasesWithCustomers = `resolved as materialized (
      select selected.*, coalesce(customers.id, guest_customer_id) as known_customer_id
      from selected
        left join ${one(
          numberTables.mapped_customers,
          'numbers',
          `wanted.external_id = selected.customer_external_id and wanted.organization_id = selected.organization_id and wanted.is_stored`,
        )} on true
        left join ${one('customers', 'customers', 'wanted.id = numbers.id and wanted.organization_id = numbers.organization_id')} on true
        left join ${one('mapped_organizations', 'known', 'wanted.organization_id = selected.organization_id')} on true
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

/** Purchases that name another customer than before. */
const relinked = `union all
      select external_id, organization_id, known_id, customer_external_id from assigned
      where known_id is not null and known_customer is distinct from customer_external_id
        and (external_id, organization_id) not in (select external_id, organization_id from differing where is_new)`;

/** Organizations whose row stays as it is are not locked: customer-totals.ts changes it as well. */
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
