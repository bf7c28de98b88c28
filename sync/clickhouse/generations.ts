import { randomBytes } from 'node:crypto';
import sql, { raw, type Sql } from 'sql-template-tag';
import { type ClickHouse, lacksTables } from '../../src/engines/clickhouse/client.ts';
import {
  inChanges as changesOf,
  type GenerationRows,
  hasChanges,
  inBase,
} from '../../src/engines/clickhouse/relations.ts';
import { clickHouseLayoutVersion } from '../../src/engines/clickhouse/schema.ts';
import type { Watermark } from '../capture/watermark.ts';
import { insertRows } from './insert.ts';

/** The batches of a writer up to the last one. */
export type Batches = { readonly writer: string; readonly last: bigint };

/** The rows of a generation: one load, and batches of changes. They show the snapshot of its watermark. */
export type Content = {
  readonly load: string;
  readonly batches: readonly Batches[];
  /** Of all these rows that have one; null if they may have several. */
  readonly currency: string | null;
  /** At most as many of these rows have no currency. */
  readonly withoutCurrency: bigint;
  readonly watermark: Watermark;
};

/** Reads `currenciesOfRows`. */
export function readCurrencies(values: readonly unknown[] | undefined) {
  const [currency, without] = values as [string | null, string];
  return { currency, withoutCurrency: BigInt(without) };
}

export type StoredGeneration = Content & {
  readonly number: bigint;
  readonly layoutVersion: number;
};

export const newIdentifier = (): string => randomBytes(8).toString('hex');
export const newLoad = (organizationId: bigint): string => `${organizationId}-${newIdentifier()}`;

/** Ids as one bound value. */
export const listOfIds = (ids: readonly bigint[]): Sql =>
  sql`cast(${`[${ids.join()}]`}, 'Array(Int64)')`;

/** The newest generations, by organization. */
export async function readNewestOf(
  clickhouse: ClickHouse,
  organizations: readonly bigint[],
  signal?: AbortSignal,
): Promise<Map<bigint, StoredGeneration>> {
  const query = clickhouse.query(
    sql`
      select organization_id, number, layout_version, load_id, arrayMap(b -> b.writer, batches),
        arrayMap(b -> b.last, batches), as_of, source, fingerprint, token, snapshot,
        currency, without_currency
      from generation where organization_id in ${listOfIds(organizations)}
      order by organization_id, number desc limit 1 by organization_id`,
    signal,
  );
  const rows = await query.catch((error) => {
    if (lacksTables(error)) return [];
    throw error;
  });
  const generations = rows.map(generationFrom);
  return new Map(generations.map((each) => [each.watermark.organizationId, each]));
}

/** The newest generation, also of another layout; null if there is none. */
export const readNewest = async (
  clickhouse: ClickHouse,
  organizationId: bigint,
  signal?: AbortSignal,
): Promise<StoredGeneration | null> =>
  (await readNewestOf(clickhouse, [organizationId], signal)).get(organizationId) ?? null;

function generationFrom(row: readonly unknown[]): StoredGeneration {
  const [organizationId, number, layoutVersion, load, writers, lasts, asOf, ...rest] = row as [
    string,
    string,
    number,
    string,
    string[],
    string[],
    string,
    ...string[],
  ];
  const [source = '', fingerprint = '', token = '', snapshot = '', ...currencies] = rest;
  return {
    number: BigInt(number),
    layoutVersion,
    load,
    batches: writers.map((writer, index) => ({ writer, last: BigInt(lasts[index] ?? 0) })),
    ...readCurrencies(currencies),
    watermark: {
      organizationId: BigInt(organizationId),
      asOf: BigInt(asOf),
      source,
      fingerprint,
      token,
      snapshot,
    },
  };
}

const columns = [
  'organization_id',
  'number',
  'layout_version',
  'load_id',
  'batches',
  'currency',
  'without_currency',
  'as_of',
  'source',
  'fingerprint',
  'token',
  'snapshot',
];

/**
 * Publishes a content after the newest generation `previous`. A generation that a worker sent
 * before it lost its lock may arrive later. Its number is lower, because its instant is earlier.
 */
export async function publish(
  clickhouse: ClickHouse,
  content: Content,
  previous: StoredGeneration | null,
): Promise<StoredGeneration> {
  const { load, batches, watermark } = content;
  const { organizationId, asOf, source, fingerprint, token, snapshot } = watermark;
  const following = (previous?.number ?? 0n) + 1n;
  const number = following > asOf ? following : asOf;
  await insertRows(clickhouse, 'generation', columns, [
    [
      String(organizationId),
      String(number),
      clickHouseLayoutVersion,
      load,
      batches.map(({ writer, last }) => ({ writer, last: String(last) })),
      content.currency,
      String(content.withoutCurrency),
      String(asOf),
      source,
      fingerprint,
      token,
      snapshot,
    ],
  ]);
  return { ...content, number, layoutVersion: clickHouseLayoutVersion };
}

const rowsOf = ({ load, batches, watermark }: Content): GenerationRows => ({
  organizationId: watermark.organizationId,
  loadId: load,
  batches,
});

/** `from … where …`: the rows of the load. A condition may follow with `and`. */
export const inLoad = (content: Content): Sql => inBase(rowsOf(content), {});

/** `from … where …`: the signed rows of the changes. A condition may follow with `and`. */
export const inChanges = (content: Content): Sql =>
  hasChanges(rowsOf(content))
    ? changesOf(rowsOf(content), {})
    : raw('from purchase_change where false');

/** The number of purchases, as an expression. */
export const purchaseCount = (content: Content): Sql =>
  sql`(select count() ${inLoad(content)}) + (select sum(toInt64(sign)) ${inChanges(content)})`;

/**
 * A subquery: the content's purchases that match a condition on their columns. With `ids`, a
 * condition on `id`, few changes are read: the engine's subquery of the same name reads all.
 */
export const currentPurchases = (
  content: Content,
  columns: Sql,
  condition: Sql = raw('true'),
  ids: Sql = raw('true'),
): Sql => sql`(
  select ${columns} ${inLoad(content)} and (${ids}) and (${condition})
    and id not in (select id ${inChanges(content)} and (${ids}))
  union all
  select ${columns} ${inChanges(content)} and (${ids}) and (${condition}) and sign > 0
    and (id, batch) in (select id, max(batch) ${inChanges(content)} and (${ids}) group by id))`;
