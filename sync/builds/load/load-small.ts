import { mkdirSync } from 'node:fs';
import sql from 'sql-template-tag';
import { type Database, withSnapshot } from '../../../src/postgres/connection/pool.ts';
import { organizationDirectory } from '../../../src/purchase-store/format/current.ts';
import { streamAllPurchases } from '../../capture/changed-purchases.ts';
import { confirmSnapshot } from '../../capture/history-token.ts';
import { takeSnapshot } from '../../capture/snapshot.ts';
import type { FileStore } from '../../files/file-store.ts';
import { createLogFile, type NewLog } from '../../files/log-files.ts';
import type { Organization } from '../../organization.ts';
import { maxBytesWithoutBase, TooManyBytesError } from '../../tick/byte-limits.ts';
import type { Prepared } from '../../tick/store.ts';
import type { BuildOptions } from '../builder.ts';
import { prepare } from '../new-files.ts';

/** The organizations with at most `max` purchases, and how many those are. */
export async function findSmall(
  database: Database,
  organizations: readonly bigint[],
  max: number,
): Promise<Map<bigint, number>> {
  const { rows } = await database.query<{ id: bigint; purchases: bigint }>(sql`
    select id, purchases from (
      select id, (
        select count(*) from (
          select from purchases where organization_id = ids.id
          limit ${max + 1}
        ) as few
      ) as purchases
      from unnest(${organizations.map(String)}::bigint[]) as ids (id)
    ) as counted
    where purchases <= ${max}`);
  return new Map(rows.map(({ id, purchases }) => [id, Number(purchases)]));
}

/**
 * Loads organizations with few purchases into logs, in one transaction. Rejects with TooManyBytesError if
 * one of them needs a base, because its purchases have much text.
 */
export async function loadSmall(
  store: FileStore,
  { database, dataDirectory }: { readonly database: Database; readonly dataDirectory: string },
  organizations: readonly Organization[],
  { signal, onRetain }: BuildOptions,
): Promise<Prepared[]> {
  const logs = new Map<bigint, NewLog>();
  try {
    for (const { id } of organizations) {
      const directory = organizationDirectory(dataDirectory, id);
      mkdirSync(directory, { recursive: true });
      logs.set(id, createLogFile(directory));
    }
    const since = await withSnapshot(database, async (connection) => {
      const now = await takeSnapshot(connection);
      onRetain(now.snapshot);
      const ids = organizations.map(({ id }) => id);
      for await (const [id, records] of streamAllPurchases(connection, ids)) {
        signal.throwIfAborted();
        const log = logs.get(id) as NewLog;
        log.append(records);
        if (log.end().bytes > maxBytesWithoutBase) throw new TooManyBytesError(id);
      }
      return now;
    });
    const confirmed = await confirmSnapshot(database, since);
    return organizations.map((organization) => {
      const log = logs.get(organization.id) as NewLog;
      const purchases = log.end().totalRecords;
      return prepare(store, dataDirectory, { organization, base: null, log, purchases }, confirmed);
    });
  } catch (error) {
    for (const log of logs.values()) log.remove();
    throw error;
  }
}
