import { setTimeout } from 'node:timers/promises';
import { raw } from 'sql-template-tag';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { type ClickHouse, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import { createClickHouseEngine } from '../../src/engines/clickhouse/engine.ts';
import { newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import { hasChanges } from '../../src/engines/clickhouse/relations.ts';
import { queryQueueOptions, readSettings } from '../../src/settings/settings.ts';
import type { Scope } from '../runner/scope.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import type { PreparedShops } from '../setup/prepared-shops.ts';
import { type ProgramEnvironment, startProgram, startService } from '../setup/programs.ts';

const timeoutMs = 600_000;

/** The service over a ClickHouse server of its own. */
type ClickHouseService = {
  readonly version: string;
  /** A database of the same server that the service does not use. */
  readonly plain: ClickHouse;
  /** The service's engine in this process. */
  readonly engine: PurchaseEngine;
  /** For an API that reads ClickHouse. */
  readonly environment: ProgramEnvironment;
  /** Brings ClickHouse up to date with Postgres, and waits for its merges, which take processor time. */
  sync(): Promise<void>;
  /** Whether an organization has changes beside its load. */
  hasChanges(organizationId: bigint): Promise<boolean>;
};

export async function startClickHouseService(
  scope: Scope,
  prepared: PreparedShops,
): Promise<ClickHouseService> {
  const { databaseUrl } = prepared.environment;
  const directory = await scratchDirectory(scope);
  const server = startService(scope, 'test/clickhouse/server.ts', [directory], { databaseUrl });
  const [, url = ''] = await server.printed(/Listening on (http\S+)/);
  const open = (database: string) => {
    const clickhouse = openClickHouse({ url, database, timeoutMs });
    scope.afterwards(clickhouse.close);
    return clickhouse;
  };
  const administration = open('default');
  await administration.run(raw('create database service'));
  await administration.run(raw('create database plain'));
  const [version] = (await administration.query(raw('select version()')))[0] ?? [];
  // A folder is one reader of the change log: of changes that it has in files, the log has none left.
  const dataDirectory = await scratchDirectory(scope);
  const environment = {
    ...prepared.environment,
    DATA_DIR: dataDirectory,
    PURCHASES_ENGINE: 'clickhouse',
    CLICKHOUSE_URL: url,
    CLICKHOUSE_DATABASE: 'service',
  };
  const service = open('service');
  const queue = queryQueueOptions(readSettings({}));
  const engine = createClickHouseEngine(service, { ...queue, timeoutMs });
  scope.afterwards(engine.close);
  return {
    version: String(version),
    plain: open('plain'),
    engine,
    environment,
    sync: async () => {
      await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
      await untilMerged(administration, scope.signal);
    },
    hasChanges: async (organizationId) => {
      const generation = await newestGeneration(service, organizationId, scope.signal);
      return generation !== null && hasChanges(generation);
    },
  };
}

async function untilMerged(clickhouse: ClickHouse, signal: AbortSignal): Promise<void> {
  for (;;) {
    const [row] = await clickhouse.query(raw('select count() from system.merges'), signal);
    if (Number(row?.[0]) === 0) return;
    await setTimeout(500, undefined, { signal });
  }
}
