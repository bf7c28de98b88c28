import { type DuckDBConnection, DuckDBTimestampValue, type DuckDBValue } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { streamChunks } from '../../duckdb/connection.ts';
import { labelKey } from '../format/layout.ts';
import { previousQuarters } from '../format/previous-purchases.ts';
import { creationQuarter } from '../format/quarter-hours.ts';
import type { StoreCatalogs } from '../format/relations.ts';
import { typesOf } from './encode.ts';

const quarter = creationQuarter.name;
const status = labelKey('payment_status');
const ofAny = previousQuarters.ofAny.name;
const ofStatus = previousQuarters.ofStatus.name;

/** The columns of the table `previous_change`. */
const columns = [
  { name: 'sign', type: 'tinyint' },
  { name: 'customer_key', type: 'integer' },
  { name: status, type: 'integer' },
  creationQuarter,
  { name: 'created_at', type: 'timestamp' },
  { name: 'id', type: 'bigint' },
  previousQuarters.ofAny,
  previousQuarters.ofStatus,
] as const;
export const columnDefinitions = columns.map(({ name, type }) => `${name} ${type} not null`).join();
export const columnTypes = typesOf(columns);

type CustomersOf = {
  readonly customers: readonly number[];
  /** Stands for no previous purchase. */
  readonly none: number;
};

/** The rows of the table `previous_change` of these customers, by column. */
export async function differencesOf(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  statusKey: Sql,
  of: CustomersOf,
): Promise<DuckDBValue[][]> {
  const { none } = of;
  const rows: DuckDBValue[][] = columns.map(() => []);
  let ofCustomer: Entry[] = [];
  const add = () => {
    for (const row of differencesOfCustomer(ofCustomer, none))
      for (const [index, value] of row.entries()) rows[index]?.push(value);
    ofCustomer = [];
  };
  const entries = entriesOf(catalogs, statusKey, of);
  for await (const chunk of streamChunks(connection, entries)) {
    for (const values of chunk.getRows()) {
      const entry = entryOf(values);
      if (entry.customer !== ofCustomer[0]?.customer) add();
      ofCustomer.push(entry);
    }
  }
  add();
  return rows;
}

type Entry = {
  readonly kind: Kind;
  readonly customer: number;
  /** The payment status, as `previousStatus` maps it. */
  readonly status: number;
  readonly quarter: number;
  /** Microseconds since 1970; null for an entry of the kind `last`. */
  readonly createdAt: bigint | null;
  readonly id: bigint;
  /** The previous quarters that the base stores; 0 for entries of other kinds. */
  readonly ofAny: number;
  readonly ofStatus: number;
  /** The sum of a change's signs. It may be less than -1, because a base may have a purchase twice. */
  readonly sign: number;
};

/** Kinds in the order of one purchase's entries. `last` is the last quarter of a customer and status in the base. */
const kinds = ['removed', 'base', 'added', 'last'] as const;
type Kind = (typeof kinds)[number];

const entryOf = (values: readonly DuckDBValue[]): Entry => ({
  customer: values[0] as number,
  createdAt: values[1] as bigint | null,
  id: values[2] as bigint,
  kind: kinds[values[3] as number] as Kind,
  status: values[4] as number,
  quarter: values[5] as number,
  ofAny: values[6] as number,
  ofStatus: values[7] as number,
  sign: values[8] as number,
});

/**
 * Selects the changes of a delta that may change a previous purchase: customer, instant or status differ
 * from the base. `statusKey` is the result of `previousStatus`.
 */
export const movedPurchases = (delta: string, statusKey: Sql, condition: Sql): Sql => sql`
  select customer_key, created_at, id, sum(sign)::integer as sign, ${statusKey} as ${raw(status)}, ${raw(quarter)}
  from ${raw(delta)}.change where sign <> 0 and ${condition}
  group by all having sum(sign) <> 0`;

/**
 * Selects the entries of each customer: the last quarters, then purchases in the order of creation. A
 * purchase of the base is an entry only if its previous purchase may differ now: its customer has a change
 * since the previous one of the same status. Ordering all purchases of the customers took three times as
 * long.
 */
function entriesOf(
  { base, delta }: StoreCatalogs,
  statusKey: Sql,
  { customers, none }: CustomersOf,
): Sql {
  const isOfCustomers = raw(`customer_key in (${customers.join(', ')})`);
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
  return sql`
    with change as materialized (
      ${movedPurchases(delta, statusKey, isOfCustomers)}
    ),
    stored as not materialized (
      select customer_key, created_at, id, ${statusKey} as ${raw(status)}, ${raw(quarter)}, ${raw(ofAny)}, ${raw(ofStatus)}
      from ${raw(base)}.purchase where ${isOfCustomers}
    )
    select customer_key, epoch_us(created_at), id, kind, ${raw(status)}, ${raw(quarter)},
      of_any, of_status, sign
    from (
      select customer_key, created_at, id, if(sign > 0, 2, 0) as kind, ${raw(status)}, ${raw(quarter)},
        0 as of_any, 0 as of_status, sign
      from change
      union all
      select customer_key, created_at, id, 1, ${raw(status)}, ${raw(quarter)}, ${raw(ofAny)}, ${raw(ofStatus)}, 0
      from stored
      semi join (
        select customer_key as customer, greatest(${raw(quarter)}, ${none}::integer) as changed from change
      )
      on customer = customer_key and changed between ${raw(ofStatus)} and ${raw(quarter)}
      union all
      select xor(customer_key, 0), null, 0, 3, ${raw(status)}, max(${raw(quarter)}), 0, 0, 0
      from stored group by all
    )
    order by customer_key, created_at nulls first, id, kind`;
}

/** Purchases of one customer, or of one customer and status, in the order of creation. */
class Chain {
  /** The base's quarter before the next purchase, while entries are read backwards; the last quarter at first. */
  followedFrom: number;
  /** The quarter of the last purchase of the base that was read. */
  #ofBase: number;
  /** The quarter of the last current purchase, up to the entry that was read. */
  #ofNow: number;

  constructor(none: number) {
    this.followedFrom = none;
    this.#ofBase = none;
    this.#ofNow = none;
  }

  /**
   * Reads the next purchase, and returns the quarter of its previous purchase now. `before` is the previous
   * quarter in the base. Removed purchases are always entries, so a purchase that is no entry exists.
   */
  read({ quarter, kind }: Entry, before: number, isPresent: boolean): number {
    const now = before === this.#ofBase ? this.#ofNow : Math.max(before, this.#ofNow);
    if (kind === 'base') this.#ofBase = quarter;
    this.#ofNow = isPresent ? quarter : now;
    return now;
  }
}

type Previous = { readonly ofAny: number; readonly ofStatus: number };

/** The rows of one customer. `none` stands for no previous purchase. */
function* differencesOfCustomer(
  entries: readonly Entry[],
  none: number,
): Generator<readonly DuckDBValue[]> {
  const ofAll = new Chain(none);
  const ofStatuses = new Map<number, Chain>();
  const chainsOf = ({ status }: Entry): readonly [Chain, Chain] => {
    const ofStatus = ofStatuses.get(status) ?? new Chain(none);
    ofStatuses.set(status, ofStatus);
    return [ofAll, ofStatus];
  };
  const inBase = previousInBase(entries, chainsOf);
  const removed = new Map<string, number>();
  for (const entry of entries) {
    const { kind, id, createdAt, status, sign } = entry;
    const state = `${id} ${createdAt} ${status}`;
    if (kind === 'removed') removed.set(state, -sign);
    const before = inBase.get(entry);
    if (before === undefined) continue;
    const isAdded = kind === 'added';
    const left = removed.get(state) ?? 0;
    const isPresent = isAdded || left === 0;
    if (!isPresent) removed.set(state, left - 1);
    const [ofCustomer, ofStatus] = chainsOf(entry);
    const now = {
      ofAny: ofCustomer.read(entry, before.ofAny, isPresent),
      ofStatus: ofStatus.read(entry, before.ofStatus, isPresent),
    };
    const isSame = now.ofAny === before.ofAny && now.ofStatus === before.ofStatus;
    if (!isAdded && !(isPresent && isSame)) yield rowOf(-1, entry, before);
    if (isAdded || (isPresent && !isSame)) yield rowOf(1, entry, now);
  }
}

/**
 * The previous quarters in the base, for purchases of the base and for added ones. An added purchase has
 * those of the next purchase in the base, or else the last quarters.
 */
function previousInBase(
  entries: readonly Entry[],
  chainsOf: (entry: Entry) => readonly [Chain, Chain],
): ReadonlyMap<Entry, Previous> {
  for (const entry of entries) {
    if (entry.kind !== 'last') continue;
    for (const chain of chainsOf(entry)) {
      chain.followedFrom = Math.max(chain.followedFrom, entry.quarter);
    }
  }
  const previous = new Map<Entry, Previous>();
  for (const entry of entries.toReversed()) {
    if (entry.kind !== 'base' && entry.kind !== 'added') continue;
    const [ofAll, ofStatus] = chainsOf(entry);
    if (entry.kind === 'base') {
      ofAll.followedFrom = entry.ofAny;
      ofStatus.followedFrom = entry.ofStatus;
    }
    previous.set(entry, { ofAny: ofAll.followedFrom, ofStatus: ofStatus.followedFrom });
  }
  return previous;
}

const rowOf = (
  sign: number,
  { customer, status, quarter, createdAt, id }: Entry,
  { ofAny, ofStatus }: Previous,
): readonly DuckDBValue[] => {
  const instant = createdAt === null ? null : new DuckDBTimestampValue(createdAt);
  return [sign, customer, status, quarter, instant, id, ofAny, ofStatus];
};
