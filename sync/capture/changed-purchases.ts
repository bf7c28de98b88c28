import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import sql, { type Sql } from 'sql-template-tag';
import { maxPurchaseLineBytes } from '../../src/domain/purchase.ts';
import { unseenEntries } from '../../src/postgres/capture/unseen-entries.ts';
import { purchaseExpressions } from '../../src/postgres/lists/purchase-select-list.ts';
import { OversizedRowError } from '../describe-failure.ts';

/** SQL of a table: the changes that the snapshot `since` does not see. */
export const changesSince = (since: string): Sql => unseenChanges(sql`${since}::pg_snapshot`);

const unseenChanges = (since: Sql): Sql =>
  sql`(select * from ${unseenEntries('purchase_changes', since)} as entries where token is null)`;

const [, ...columnsAfterId] = purchaseExpressions;

// COPY takes no parameters, so the values are settings of the transaction.
const copyChanges = `
  copy (
    select changed.organization_id, case when purchases.id is null then 'd' else 'u' end,
      changed.purchase_id, ${columnsAfterId.join(', ')}
    from (
      select distinct organization_id, purchase_id
      from ${unseenChanges(sql`current_setting('sync.since')::pg_snapshot`).text} as changes
      where organization_id = any (current_setting('sync.organizations')::bigint[])
    ) as changed
    left join purchases on purchases.id = changed.purchase_id
      and purchases.organization_id = changed.organization_id
    order by changed.organization_id
  ) to stdout`;

const copyPurchases = `
  copy (
    select organization_id, 'u', ${purchaseExpressions.join(', ')}
    from purchases
    where organization_id = any (current_setting('sync.organizations')::bigint[])
    order by organization_id, created_at, id
  ) to stdout`;

/**
 * Each purchase of these organizations that changed since the snapshot `since`, once, as it is in
 * the transaction's snapshot. It counts as deleted if it moved to another organization.
 */
export async function* streamChanges(
  connection: pg.ClientBase,
  organizations: readonly bigint[],
  since: string,
): AsyncGenerator<[organizationId: bigint, Records]> {
  await setLocal(connection, { organizations: listOf(organizations), since });
  yield* recordsOf(connection, copyChanges);
}

/** All purchases of these organizations. */
export async function* streamAllPurchases(
  connection: pg.ClientBase,
  organizations: readonly bigint[],
): AsyncGenerator<[organizationId: bigint, Records]> {
  await setLocal(connection, { organizations: listOf(organizations) });
  yield* recordsOf(connection, copyPurchases);
}

const listOf = (ids: readonly bigint[]): string => `{${ids.join()}}`;

/** The approximate size of the parts that the stream yields. */
const partBytes = 4 * 2 ** 20;

/** Splits the output of COPY by organization. An organization may have several parts. */
async function* recordsOf(
  connection: pg.ClientBase,
  copy: string,
): AsyncGenerator<[organizationId: bigint, Records]> {
  const rows = connection.query(copyTo(copy));
  let isComplete = false;
  const splitter = createSplitter();
  try {
    for await (const chunk of rows as AsyncIterable<Buffer>) yield* splitter.push(chunk);
    isComplete = true;
  } finally {
    // The connection still receives rows of COPY, so it cannot be used again.
    if (!isComplete) void (connection as pg.Client).end();
  }
  yield* splitter.rest();
}

/** Throws if a line is longer than readers of a log accept. */
function requireReadable(parts: readonly Buffer[]): void {
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  if (bytes > maxPurchaseLineBytes) throw new OversizedRowError();
}

const newline = 10;
const tab = 9;

function createSplitter() {
  /** The beginning of a line. */
  let unfinished: Buffer[] = [];
  let organization = '';
  let lines: Buffer[] = [];
  let bytes = 0;

  const takeLines = (): [bigint, Records] => {
    const records = { lines: Buffer.concat(lines), records: lines.length };
    lines = [];
    bytes = 0;
    return [BigInt(organization), records];
  };

  const push = function* (chunk: Buffer): Generator<[bigint, Records]> {
    unfinished.push(chunk);
    // Chunks are joined only when the line ends: a long line would be copied with each of its chunks.
    if (!chunk.includes(newline)) return requireReadable(unfinished);
    const content = unfinished.length === 1 ? chunk : Buffer.concat(unfinished);
    let begin = 0;
    for (;;) {
      const end = content.indexOf(newline, begin) + 1;
      if (end === 0) break;
      const afterId = content.indexOf(tab, begin) + 1;
      const id = content.toString('latin1', begin, afterId - 1);
      if (lines.length > 0 && (id !== organization || bytes >= partBytes)) yield takeLines();
      organization = id;
      const line = withoutAbsent(content.subarray(afterId, end));
      requireReadable([line]);
      lines.push(line);
      bytes += line.length;
      begin = end;
    }
    unfinished = begin === content.length ? [] : [content.subarray(begin)];
  };

  return {
    push,
    *rest(): Generator<[bigint, Records]> {
      if (lines.length > 0) yield takeLines();
    },
  };
}

/** The line of a deleted purchase needs its id only. */
function withoutAbsent(line: Buffer): Buffer {
  if (isUpsert(line)) return line;
  const end = line.indexOf(tab, 2);
  return Buffer.concat([line.subarray(0, end), Buffer.from('\n')]);
}

/** Records of one organization, as lines of its log (src/purchase-store/format/log.ts). */
export type Records = { readonly lines: Buffer; readonly records: number };

export const noRecords: Records = { lines: Buffer.alloc(0), records: 0 };

const [upsert] = Buffer.from('u');

/** Whether a line has the columns of a purchase. The line of a deleted purchase has its id only. */
export const isUpsert = (line: Buffer): boolean => line[0] === upsert;

/** Sets settings `sync.…` of the transaction: values for COPY, which takes no parameters. */
export async function setLocal(
  connection: pg.ClientBase,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const names = Object.keys(settings).map((name) => `sync.${name}`);
  await connection.query(sql`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${Object.values(settings)}::text[]) as setting (name, value)`);
}
