import sql, { raw, type Sql } from 'sql-template-tag';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { purchaseNames } from '../../src/engines/clickhouse/schema.ts';
import { type ChangedPurchase, textBytesOf } from '../apply/staging.ts';
import { type Content, currentPurchases, listOfIds } from './generations.ts';
import { insertRows } from './insert.ts';

/** A batch of changes that no published generation names yet. */
export type Batch = { readonly writer: string; readonly batch: bigint };

export type Written = {
  /** The number of changed purchases. */
  readonly purchases: number;
  /** The number of rows with sign 1 by currency. */
  readonly currencies: ReadonlyMap<string | null, bigint>;
};

/** Changes of one request. Their ids are a parameter in its URL, of at most 42 KiB. */
const partRows = 2_000;
const partTextBytes = 8 * 2 ** 20;

const names = purchaseColumns.map(({ name }) => name);
const currencyAt = names.indexOf('currency');
const signedColumns = ['organization_id', 'load_id', 'writer', 'batch', 'sign', ...names];

/**
 * Adds changed purchases to a batch: with sign -1 the rows that `content` has, except those that
 * match `superseded`, and with sign 1 the current ones.
 */
export async function writeChanges(
  clickhouse: ClickHouse,
  content: Content,
  batch: Batch,
  changes: AsyncIterable<ChangedPurchase>,
  signal: AbortSignal,
  superseded: Sql = raw('false'),
): Promise<Written> {
  const currencies = new Map<string | null, bigint>();
  let count = 0;
  let part: ChangedPurchase[] = [];
  let textBytes = 0;
  const flush = async () => {
    signal.throwIfAborted();
    if (part.length === 0) return;
    const ids = sql`id in ${listOfIds(part.map(({ id }) => id))}`;
    await insertSuperseded(clickhouse, content, batch, sql`not (${superseded})`, ids, signal);
    await insertCurrent(clickhouse, content, batch, part, signal);
    count += part.length;
    for (const { row } of part) {
      if (row === null) continue;
      const currency = row[currencyAt] as string | null;
      currencies.set(currency, (currencies.get(currency) ?? 0n) + 1n);
    }
    part = [];
    textBytes = 0;
  };
  for await (const change of changes) {
    part.push(change);
    textBytes += textBytesOf(change);
    if (part.length === partRows || textBytes >= partTextBytes) await flush();
  }
  await flush();
  return { purchases: count, currencies };
}

async function insertCurrent(
  clickhouse: ClickHouse,
  { load, watermark }: Content,
  { writer, batch }: Batch,
  part: readonly ChangedPurchase[],
  signal: AbortSignal,
): Promise<void> {
  const prefix = [String(watermark.organizationId), load, writer, String(batch), 1];
  const rows = part.flatMap(({ row }) =>
    row === null
      ? []
      : [[...prefix, ...row.map((value) => (typeof value === 'bigint' ? String(value) : value))]],
  );
  if (rows.length > 0) await insertRows(clickhouse, 'purchase_change', signedColumns, rows, signal);
}

/** Adds the content's rows that match a condition to a batch, with sign -1. */
export async function insertSuperseded(
  clickhouse: ClickHouse,
  content: Content,
  { writer, batch }: Batch,
  condition: Sql,
  ids: Sql,
  signal: AbortSignal,
): Promise<void> {
  const { load, watermark } = content;
  await clickhouse.run(
    sql`
      insert into purchase_change (${raw(signedColumns.join(', '))})
      select ${watermark.organizationId}, ${load}, ${writer}, ${batch}, -1, *
      from ${currentPurchases(content, purchaseNames, condition, ids)}`,
    signal,
  );
}
