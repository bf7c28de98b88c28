import { randomBytes } from 'node:crypto';
import sql, { raw, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { storageTable, type TableName } from '../../src/engines/clickhouse/schema.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';

/** A new id of a writer. No other process and no other attempt has the id. */
export const newWriter = (): string => randomBytes(8).toString('hex');

/** A new id of a load. It begins with the organization's id. */
export const newLoad = (organizationId: bigint): string => `${organizationId}-${newWriter()}`;

/** A new id of a change feed. */
export const newFeed = (): string => randomBytes(6).toString('hex');

/** The organization of a load; null if the text is not the id of a load. */
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
