import sql, { raw } from 'sql-template-tag';
import { organizationWatermark } from '../../purchase-store/ticks/published.ts';
import { newestTick, type TickWatermark } from '../../purchase-store/ticks/published-tick.ts';
import { type ClickHouse, type ClickHouseRow, lacksTables } from './client.ts';
import { type GenerationRows, isOfWriters, type WriterBatches } from './relations.ts';
import { buildWriter, table } from './schema.ts';
import { readTicksFor } from './ticks.ts';

/** The load of an organization: a row of `generation`. */
export type Load = TickWatermark & {
  readonly organizationId: bigint;
  readonly number: bigint;
  readonly loadId: string;
  readonly purchases: number;
  /** Of all rows that have one; null if they may have several. */
  readonly currency: string | null;
  /** At most as many rows have no currency. */
  readonly withoutCurrency: bigint;
  /** Later ticks include the organization. */
  readonly tick: number;
  readonly fingerprint: string;
  readonly source: string;
  /** The change feed that the load continues. No other feed of any organization has the name. */
  readonly feed: string;
  /** The highest number of a change that the load has. */
  readonly changesUntil: bigint;
};

/** What an organization shows: a load, and changes. */
export type LoadGeneration = Load &
  GenerationRows & {
    /** No other content of the organization ever has the name. */
    readonly name: string;
    /** The instant of the worker's tick, which may not include the organization. */
    readonly tickAsOf: bigint;
    /** Changes with lower numbers may be missing in the change feed. */
    readonly changesSince: bigint;
  };

/** The newest generation, which must be of `source` unless that is null. */
export type FindGeneration = (
  organizationId: bigint,
  source: string | null,
  signal?: AbortSignal,
) => Promise<LoadGeneration | null>;

const text = (value: unknown) => value;
const integer = (value: unknown) => BigInt(value as string);

/** The column of each field, and how its value is read. */
const columns: readonly (readonly [keyof Load, string, (value: unknown) => unknown])[] = [
  ['organizationId', 'organization_id', integer],
  ['number', 'number', integer],
  ['loadId', 'load_id', text],
  ['purchases', 'purchases', Number],
  ['currency', 'currency', text],
  ['withoutCurrency', 'without_currency', integer],
  ['tick', 'tick', Number],
  ['asOf', 'as_of', integer],
  ['snapshot', 'snapshot', text],
  ['token', 'token', text],
  ['fingerprint', 'fingerprint', text],
  ['source', 'source', text],
  ['feed', 'feed', text],
  ['changesUntil', 'changes_until', integer],
];

export const loadColumns = columns.map(([, column]) => column);
export const loadColumnsSql = raw(loadColumns.join(', '));

/** Reads the values of `loadColumns`. */
export const loadFrom = (row: ClickHouseRow): Load =>
  Object.fromEntries(columns.map(([field, , read], index) => [field, read(row[index])])) as Load;

/** The values of `loadColumns`, as an insert takes them. */
export const loadRow = (load: Load): unknown[] =>
  columns.map(([field]) => {
    const value = load[field];
    return typeof value === 'bigint' ? String(value) : value;
  });

/** The batches that belong to their load. */
export const buildBatches: WriterBatches = { writer: buildWriter, last: 2n ** 63n - 1n };

/**
 * What an organization shows; null if there is no load of this version, or if no worker of this
 * version has created the tables.
 */
export async function newestGeneration(
  clickhouse: ClickHouse,
  organizationId: bigint,
  signal: AbortSignal | undefined,
): Promise<LoadGeneration | null> {
  // Before the load: an earlier load would lack the changes of a later tick. In one statement, the
  // order of reading would depend on the cluster.
  const ticks = await readTicksFor(clickhouse, organizationId, signal);
  const tick = newestTick(ticks, organizationId);
  const writers = [buildBatches, ...(tick?.writers ?? [])];
  const statement = sql`
    select ${loadColumnsSql}, (
      select groupArray(tuple(load_id, writers, newest, currencies, without_currency)) from (
        select load_id, groupUniqArray(writer) as writers, max((tick, writer)) as newest,
          groupUniqArrayIf(2)(currency, sign > 0) as currencies,
          countIf(sign > 0 and currency is null) as without_currency
        from ${table.purchase_change}
        where organization_id = ${organizationId} and sign <> 0 and ${isOfWriters(writers)}
        group by load_id
      )
    )
    from ${table.generation} where organization_id = ${organizationId}
    order by number desc limit 1`;
  const [row] = await clickhouse.query(statement, signal).catch((error) => {
    if (lacksTables(error)) return [];
    throw error;
  });
  if (row === undefined) return null;
  const load = loadFrom(row);
  const summaries = row.at(-1) as unknown as ChangeSummary[];
  const changes = summaries.find(([loadId]) => loadId === load.loadId);
  const shown = {
    ...load,
    ...organizationWatermark(organizationId, load, tick),
    tickAsOf: tick?.asOf ?? load.asOf,
    changesUntil: highest([load, ...(tick === null ? [] : [tick])], 'changesUntil'),
    // Each worker removes the changes of all.
    changesSince: highest(ticks, 'changesSince'),
  };
  return changes === undefined
    ? { ...shown, writers: [], name: load.loadId }
    : { ...shown, ...withChanges(load, writers, changes) };
}

/** The highest value of a field; 0 without rows. */
export const highest = <Field extends string>(
  rows: readonly Readonly<Record<Field, bigint>>[],
  field: Field,
): bigint => rows.reduce((max, { [field]: value }) => (value > max ? value : max), 0n);

type ChangeSummary = readonly [
  loadId: string,
  writers: readonly string[],
  newest: readonly [tick: string, writer: string],
  currencies: readonly string[],
  withoutCurrency: string,
];

function withChanges(
  { loadId, currency, withoutCurrency }: Load,
  published: readonly WriterBatches[],
  [, writers, newest, currencies, withoutInChanges]: ChangeSummary,
) {
  return {
    writers: published.filter(({ writer }) => writers.includes(writer)),
    // Workers that were killed may have used the same number for ticks that they did not publish.
    name: `${loadId} ${newest.join(' ')}`,
    currency: currencies.every((each) => each === currency) ? currency : null,
    withoutCurrency: withoutCurrency + BigInt(withoutInChanges),
  };
}
