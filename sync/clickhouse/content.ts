import sql, { raw, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { clickHouseLayoutVersion, purchaseNames } from '../../src/engines/clickhouse/schema.ts';
import { hashInClickHouse } from '../verification/checksums.ts';
import {
  type PublishedContent,
  type PublishedContents,
  requireLayout,
  UnreadableError,
} from '../verification/published-content.ts';
import { conditionOf, type PurchaseRange } from '../verification/purchase-range.ts';
import { emptyExclusion, excludePurchases } from './exclusion.ts';
import {
  type Content,
  currentPurchases,
  inChanges,
  inLoad,
  readNewest,
  type StoredGeneration,
} from './generations.ts';

/** An organization's published generations in ClickHouse. */
export function openPublishedContents(
  clickhouse: ClickHouse,
  organizationId: bigint,
  close: () => Promise<void> = async () => {},
): PublishedContents {
  let open: PublishedContent | null = null;
  return {
    async newest() {
      const generation = await readNewest(clickhouse, organizationId);
      if (generation === null) return null;
      requireLayout(generation.layoutVersion, clickHouseLayoutVersion);
      if (open?.generation.name !== String(generation.number)) {
        open = storedContent(clickhouse, generation);
      }
      return open;
    },
    close,
  };
}

/** The range as a condition on the tables `purchase` and `purchase_change`. */
export const inClickHouse = (range: PurchaseRange): Sql =>
  conditionOf(range, raw(''), (instant) => sql`${instant}`);

/** A content that may not be published yet. */
export function storedContent(
  clickhouse: ClickHouse,
  content: Content & Partial<StoredGeneration>,
): PublishedContent {
  const { watermark, load, number } = content;
  const axes = { created: raw('created_at'), id: raw('id') };
  let exclusion = emptyExclusion;

  const purchases = (range: PurchaseRange): Sql =>
    currentPurchases(content, purchaseNames, inClickHouse(range));
  const unchanged = (range: PurchaseRange): Sql =>
    sql`from ${purchases(range)} where ${exclusion.isUnchanged}`;

  return {
    generation: { ...watermark, name: number === undefined ? load : String(number) },
    async findDamage() {
      await requireSupersededRows(clickhouse, content);
      // Rows have their texts, so there are no dictionaries that could be damaged.
      return [];
    },
    async exclude(changed) {
      exclusion = await excludePurchases(clickhouse, watermark.organizationId, changed);
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
      const rows = await clickhouse.query(
        sql`select id, created_at, ${hashInClickHouse} ${unchanged(range)}`,
      );
      return rows.map((row) => {
        const [id, created, hash] = row.map((value) => BigInt(value as string)) as [
          bigint,
          bigint,
          bigint,
        ];
        return { id, created, hash };
      });
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
      const rows = await clickhouse.query(sql`
        select intDiv(${axes[axis]} - ${first}, ${width}) as bin, count()
        from ${purchases(range)} group by bin order by bin`);
      return rows.map(([bin, count]) => [BigInt(bin as string), BigInt(count as string)] as const);
    },
  };
}

/**
 * Rejects if the signed rows of the changes and the rows of the load do not add up to the current
 * ones: sums over them would be wrong, although the purchases themselves may be equal.
 */
async function requireSupersededRows(clickhouse: ClickHouse, content: Content): Promise<void> {
  if (content.batches.length === 0) return;
  const isChanged = sql`id in (select id ${inChanges(content)})`;
  const hashed = (sign: Sql, rows: Sql) =>
    sql`select id, ${hashInClickHouse} as hash, toInt64(${sign}) as sign ${rows}`;
  const [row] = await clickhouse.query(sql`
    select count() from (
      select id, hash from (
        ${hashed(raw('1'), sql`${inLoad(content)} and ${isChanged}`)}
        union all
        ${hashed(raw('sign'), inChanges(content))}
        union all
        ${hashed(raw('-1'), sql`from ${currentPurchases(content, purchaseNames, isChanged)}`)}
      )
      group by id, hash having sum(sign) <> 0)`);
  if (Number(row?.[0]) === 0) return;
  throw new UnreadableError(`${row?.[0]} superseded rows differ from those that they supersede`);
}
