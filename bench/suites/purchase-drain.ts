import { performance } from 'node:perf_hooks';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import { purchaseSelectList } from '../../src/engines/postgres/columns.ts';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';

/**
 * COPY takes no parameters: the organization is a setting of the session, for the
 * planner as good as a value.
 */
const copyStatement = `
  copy (
    select ${purchaseSelectList}
    from purchases
    where organization_id = current_setting('bench.organization_id')::bigint
    order by created_at, id
  ) to stdout`;

/** Reads all of an organization's purchases as fast as they come, and drops them. */
export async function drainPurchases(
  database: Database,
  organizationId: bigint,
): Promise<{ readonly milliseconds: number; readonly bytes: number }> {
  return withSnapshot(database, async (connection) => {
    await connection.query(`select set_config('bench.organization_id', $1, true)`, [
      String(organizationId),
    ]);
    let bytes = 0;
    const nowhere = new Writable({
      write(chunk: Buffer, _encoding, done) {
        bytes += chunk.length;
        done();
      },
    });
    const startedAt = performance.now();
    await pipeline(connection.query(copyTo(copyStatement)), nowhere);
    return { milliseconds: performance.now() - startedAt, bytes };
  });
}
