import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import {
  type GenerationRows,
  hasChanges,
  inBase,
  inChanges,
} from '../../src/engines/clickhouse/relations.ts';
import { purchaseNames } from '../../src/engines/clickhouse/schema.ts';
import { databaseOf } from '../capture/watermark.ts';
import { hashInClickHouse } from '../verification/checksums.ts';
import {
  type Generation,
  type PublishedContent,
  type PublishedContents,
  UnreadableError,
} from '../verification/published-content.ts';
import { conditionOf, type PurchaseRange } from '../verification/purchase-range.ts';
import { currentPurchases } from './current-purchases.ts';
import { emptyExclusion, excludePurchases } from './exclusion.ts';

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

/** The range as a condition on the tables `purchase` and `purchase_change`. */
const inClickHouse = (range: PurchaseRange): Sql =>
  conditionOf(range, raw(''), (instant) => sql`${instant}`);

/** The content of rows that may not be published yet. */
export function contentOf(
  clickhouse: ClickHouse,
  rows: GenerationRows,
  generation: Generation,
): PublishedContent {
  const axes = { created: raw('created_at'), id: raw('id') };
  let exclusion = emptyExclusion;

  const purchases = (range: PurchaseRange): Sql =>
    currentPurchases(rows, purchaseNames, inClickHouse(range));
  const unchanged = (range: PurchaseRange): Sql =>
    sql`from ${purchases(range)} where ${exclusion.isUnchanged}`;

  return {
    generation,
    async findDamage() {
      await requireSupersededRows(clickhouse, rows);
      // Rows have their texts, so there are no dictionaries that could be damaged.
      return [];
    },
    async exclude(changed) {
      exclusion = await excludePurchases(clickhouse, rows.organizationId, changed);
    },
    async countExcluded(range) {
      const { inPostgres, isOnlyPublished } = exclusion;
      const [row] = await clickhouse.query(
        sql`select count() from ${purchases(range)} where ${isOnlyPublished}`,
      );
      return inPostgres + Number(row?.[0]);
    },
    async checksums(ranges) {
      const found = [];
      for (const range of ranges) {
        const [row] = await clickhouse.query(sql`
          select count(), sum(toInt128(hash)) from (select ${hashInClickHouse} as hash ${unchanged(range)})`);
        const [count, sum] = (row ?? []) as [string, string];
        found.push({ count: Number(count), sum: BigInt(sum) });
      }
      return found;
    },
    async rowHashes(range) {
      const found = await clickhouse.query(
        sql`select id, created_at, ${hashInClickHouse} ${unchanged(range)}`,
      );
      return found.map((row) => {
        const [id, created, hash] = row.map((value) => BigInt(value as string)) as [
          bigint,
          bigint,
          bigint,
        ];
        return { id, created, hash };
      });
    },
    async ids(ranges) {
      const isInRange = join(
        ranges.map((range) => sql`(${inClickHouse(range)})`),
        ' or ',
      );
      const found = await clickhouse.query(
        sql`select id from ${currentPurchases(rows, raw('id'), isInRange)}`,
      );
      return found.map(([id]) => BigInt(id as string));
    },
    async bounds(range) {
      const [row] = await clickhouse.query(sql`
        select count(), min(created_at), max(created_at), min(id), max(id) from ${purchases(range)}`);
      const [count = 0n, firstCreated = 0n, lastCreated = 0n, firstId = 0n, lastId = 0n] = (
        row ?? []
      ).map((value) => BigInt(value as string));
      return { count, created: [firstCreated, lastCreated], ids: [firstId, lastId] };
    },
    async histogram(range, axis, first, width) {
      const found = await clickhouse.query(sql`
        select intDiv(${axes[axis]} - ${first}, ${width}) as bin, count()
        from ${purchases(range)} group by bin order by bin`);
      return found.map(([bin, count]) => [BigInt(bin as string), BigInt(count as string)] as const);
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
        ${hashed(raw('-1'), sql`from ${currentPurchases(rows, purchaseNames, isChanged)}`)}
      )
      group by id, hash having sum(sign) <> 0)`);
  if (Number(row?.[0]) === 0) return;
  throw new UnreadableError(`${row?.[0]} superseded rows differ from those that they supersede`);
}
