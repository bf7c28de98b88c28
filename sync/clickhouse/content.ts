import { ClickHouseError } from '@clickhouse/client';
import sql, { raw, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import {
  type GenerationRows,
  hasChanges,
  inBase,
  inChanges,
  listOfIds,
} from '../../src/engines/clickhouse/relations.ts';
import { purchaseNames, table } from '../../src/engines/clickhouse/schema.ts';
import { databaseOf } from '../capture/watermark.ts';
import { hashInClickHouse } from '../verification/checksums.ts';
import {
  DamagedGenerationError,
  type PublishedContent,
  type PublishedContents,
  type PublishedGeneration,
} from '../verification/published-content.ts';
import { inStore, type PurchaseRange } from '../verification/purchase-range.ts';
import { newLoad } from './identifiers.ts';
import { insertRows } from './insert.ts';
import { newestPurchases } from './newest-purchases.ts';

/** What an organization shows in ClickHouse. */
export function openPublishedContents(
  clickhouse: ClickHouse,
  organizationId: bigint,
  close: () => Promise<void> = async () => {},
): PublishedContents {
  return {
    async newest() {
      const generation = await newestGeneration(clickhouse, organizationId, undefined);
      if (generation === null) return null;
      const database = databaseOf(generation.source);
      return contentOf(clickhouse, generation, { ...generation, database });
    },
    close,
  };
}

/** Errors of damaged parts of a table. */
const damageTypes = [
  'ATTEMPT_TO_READ_AFTER_EOF',
  'CANNOT_DECOMPRESS',
  'CANNOT_READ_ALL_DATA',
  'CHECKSUM_DOESNT_MATCH',
  'CORRUPTED_DATA',
  'FILE_DOESNT_EXIST',
  'NO_FILE_IN_DATA_PART',
  'POTENTIALLY_BROKEN_DATA_PART',
];

/** Its queries reject with DamagedGenerationError if a part of a table is damaged. */
const detectingDamage = (clickhouse: ClickHouse): ClickHouse => ({
  ...clickhouse,
  query: (...args) =>
    clickhouse.query(...args).catch((error) => {
      const type = error instanceof ClickHouseError ? (error.type ?? '') : '';
      if (!damageTypes.includes(type)) throw error;
      throw new DamagedGenerationError(`ClickHouse cannot read rows: ${type}`);
    }),
});

/** The content of rows that may not be published yet. */
export function contentOf(
  server: ClickHouse,
  rows: GenerationRows,
  generation: PublishedGeneration,
): PublishedContent {
  const clickhouse = detectingDamage(server);
  let isUnchanged = raw('true');
  const unchanged = (range: PurchaseRange): Sql =>
    sql`from ${newestPurchases(
      rows,
      purchaseNames,
      inStore(range, (instant) => sql`${instant}`),
    )} where ${isUnchanged}`;

  return {
    generation,
    requireConsistent: () => requireSupersededRows(clickhouse, rows),
    async exclude(changed) {
      isUnchanged = await excludePurchases(clickhouse, rows.organizationId, changed);
    },
    async checksum(range) {
      const [row] = await clickhouse.query(sql`
        select count(), sum(toInt128(hash)) from (select ${hashInClickHouse} as hash ${unchanged(range)})`);
      const [count, sum] = row as [string, string];
      return { count: Number(count), sum: BigInt(sum) };
    },
    async rowHashes(range) {
      const found = await clickhouse.query(sql`select id, ${hashInClickHouse} ${unchanged(range)}`);
      return found.map(([id, hash]) => [BigInt(id as string), BigInt(hash as string)] as const);
    },
  };
}

/**
 * Rejects if the signed rows of the changes and the rows of the load do not add up to the current
 * ones: sums over them would be wrong, although the purchases themselves may be equal.
 */
async function requireSupersededRows(clickhouse: ClickHouse, rows: GenerationRows): Promise<void> {
  if (!hasChanges(rows)) return;
  const isChanged = sql`id in (select id ${inChanges(rows, {})})`;
  const hashed = (sign: Sql, from: Sql) =>
    sql`select id, ${hashInClickHouse} as hash, toInt64(${sign}) as sign ${from}`;
  const [row] = await clickhouse.query(sql`
    select count() from (
      select id, hash from (
        ${hashed(raw('1'), sql`${inBase(rows, {})} and ${isChanged}`)}
        union all
        ${hashed(raw('sign'), inChanges(rows, {}))}
        union all
        ${hashed(raw('-1'), sql`from ${newestPurchases(rows, purchaseNames, isChanged)}`)}
      )
      group by id, hash having sum(sign) <> 0)`);
  if (Number(row?.[0]) === 0) return;
  throw new DamagedGenerationError(
    `${row?.[0]} superseded rows differ from those that they supersede`,
  );
}

/** Ids that are bound to each query: at most 110 KB. */
const maxBound = 5_000;
const insertedAtOnce = 50_000;
const columns = ['organization_id', 'load_id', 'id'];

/**
 * A condition on `id`: none of these purchases. Many of them become rows of a load that is never
 * published, and is dropped like others.
 */
async function excludePurchases(
  clickhouse: ClickHouse,
  organizationId: bigint,
  changed: AsyncIterable<bigint>,
): Promise<Sql> {
  const load = newLoad(organizationId);
  let ids: bigint[] = [];
  let isInserted = false;
  const insert = async () => {
    const rows = ids.map((id) => [String(organizationId), load, String(id)]);
    await insertRows(clickhouse, 'purchase', columns, rows);
    isInserted = true;
    ids = [];
  };
  for await (const id of changed) {
    ids.push(id);
    if (ids.length === insertedAtOnce) await insert();
  }
  if (isInserted || ids.length > maxBound) await insert();
  if (!isInserted) return sql`id not in ${listOfIds(ids)}`;
  return sql`id global not in (
    select id from ${table.purchase}
    where organization_id = ${organizationId} and load_id = ${load})`;
}
