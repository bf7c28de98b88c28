import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import type { Registry } from 'prom-client';
import sql from 'sql-template-tag';
import { queryRows } from '../duckdb/connection.ts';
import { addGauge, type Readings } from './registry.ts';

/** A scrape does not wait longer: all threads that run DuckDB's queries may be occupied. */
const maxWaitMs = 1_000;

/** Adds the memory of the instance that `current` returns; no values while it returns null. */
export function addDuckDBMemory(registry: Registry, current: () => DuckDBInstance | null): void {
  let reading: Promise<Readings> | null = null;
  let last: Readings = [];

  const read = async (): Promise<Readings> => {
    const instance = current();
    if (instance === null) return [];
    const connection = await instance.connect();
    try {
      const [row] = await queryRows(
        connection,
        sql`select sum(memory_usage_bytes)::bigint, sum(temporary_storage_bytes)::bigint
          from duckdb_memory()`,
      );
      return [
        [{ storage: 'memory' }, Number(row?.[0])],
        [{ storage: 'disk' }, Number(row?.[1])],
      ];
    } finally {
      connection.closeSync();
    }
  };

  addGauge(
    registry,
    'crm_duckdb_bytes',
    'Memory of DuckDB, and temporary files of queries that exceed it',
    ['storage'],
    async () => {
      // The instance may be closed meanwhile.
      reading ??= read()
        .catch((): Readings => [])
        .finally(() => {
          reading = null;
        });
      last = await Promise.race([reading, sleep(maxWaitMs, last, { ref: false })]);
      return last;
    },
  );
}
