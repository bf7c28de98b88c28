import type { DuckDBInstance } from '@duckdb/node-api';
import type { Registry } from 'prom-client';
import sql from 'sql-template-tag';
import { queryRows, withDuckDBConnection } from '../duckdb/connection.ts';
import { addGauge, queried, type Readings } from './registry.ts';

/** Adds the memory of the instance that `current` returns; no values while it returns null. */
export function addDuckDBMemory(registry: Registry, current: () => DuckDBInstance | null): void {
  // It may be closed meanwhile.
  const read = async (): Promise<Readings | null> => {
    const instance = current();
    if (instance === null) return null;
    const sums = sql`
      select sum(memory_usage_bytes)::bigint, sum(temporary_storage_bytes)::bigint
      from duckdb_memory()`;
    const [row] = await withDuckDBConnection(instance, (connection) => queryRows(connection, sums));
    return [
      [{ storage: 'memory' }, Number(row?.[0])],
      [{ storage: 'disk' }, Number(row?.[1])],
    ];
  };

  addGauge(
    registry,
    'crm_duckdb_bytes',
    'Memory of DuckDB, and temporary files of queries that exceed it',
    ['storage'],
    // All threads that run DuckDB's queries may be occupied.
    queried(read, { keepsLast: true }),
  );
}
