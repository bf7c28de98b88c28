import type { Logger } from 'pino';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { Generation } from '../capture/watermark.ts';
import type { Store } from '../schedule/store.ts';
import { insertRows } from './insert.ts';

/** Each insert adds a part, which ClickHouse merges later. */
const intervalMs = 1_000;
const columns = ['organization_id', 'number', 'as_of'];

/** Inserts up to which instant generations show all commits, one insert at a time. */
export function createConfirmations(clickhouse: ClickHouse, log: Logger): Store['confirm'] {
  let nextAt = 0;
  let isInserting = false;

  const insert = async (asOf: bigint, generations: ReadonlyMap<bigint, Generation>) => {
    isInserting = true;
    const rows = [...generations].map(([id, { name }]) => [String(id), name, String(asOf)]);
    try {
      await insertRows(clickhouse, 'up_to_date', columns, rows);
    } catch (error) {
      // The instants of the generations stay true.
      log.debug({ err: error }, 'cannot confirm generations');
    } finally {
      isInserting = false;
      nextAt = performance.now() + intervalMs;
    }
  };

  return (asOf, generations) => {
    if (isInserting || generations.size === 0 || performance.now() < nextAt) return;
    void insert(asOf, generations);
  };
}
