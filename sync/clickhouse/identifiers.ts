import { randomBytes } from 'node:crypto';
import sql, { raw, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { storageTable, type TableName } from '../../src/engines/clickhouse/schema.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';

/** Of a writer, which no other process and no other attempt has. */
export const newWriter = (): string => randomBytes(8).toString('hex');

/** Of a load. It begins with the organization. */
export const newLoad = (organizationId: bigint): string => `${organizationId}-${newWriter()}`;

/** Of a change feed. */
export const newFeed = (): string => randomBytes(6).toString('hex');

/** The organization of a load; null if the name is no load's. */
export function organizationOf(loadId: string): bigint | null {
  const [, id] = /^(\d+)-[0-9a-f]+$/.exec(loadId) ?? [];
  return id === undefined ? null : BigInt(id);
}

/** Names of loads and writers as one bound value. */
export const listOfNames = (names: readonly string[]): Sql =>
  sql`cast(${`[${names.map((name) => `'${name}'`).join()}]`}, 'Array(String)')`;

/** A condition on rows of organizations. */
export const inShard = ({ number, of }: Shard): Sql =>
  sql`(organization_id % ${BigInt(of)} = ${BigInt(number - 1)})`;

/** The table in `alter table …`. */
export const alteredTable = ({ cluster }: ClickHouse, table: TableName): Sql =>
  raw(storageTable(table, cluster) + (cluster === null ? '' : ` on cluster ${cluster}`));
