import { randomBytes } from 'node:crypto';
import { raw } from 'sql-template-tag';
import { inject } from 'vitest';
import {
  type ClickHouse,
  type ClickHouseOptions,
  openClickHouse,
} from '../../src/engines/clickhouse/client.ts';
import { createClickHouseEngine } from '../../src/engines/clickhouse/engine.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { createClickHouseBuilder } from '../../sync/clickhouse/clickhouse-builder.ts';
import {
  type ClickHouseStoreOptions,
  createClickHouseStore,
} from '../../sync/clickhouse/clickhouse-store.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { createWorker, type Worker } from '../../sync/worker/worker.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import type { TestWorkerOptions } from '../support/sync.ts';

type TestClickHouse = {
  readonly clickhouse: ClickHouse;
  readonly options: ClickHouseOptions;
  /** The settings of a program that uses the database. */
  readonly environment: Record<string, string>;
  drop(): Promise<void>;
};

const cluster = process.env.TEST_CLICKHOUSE_CLUSTER;
const everywhere = cluster === undefined ? '' : `on cluster ${cluster}`;

/** A new, empty database. The worker creates its tables. */
export async function createTestClickHouse(): Promise<TestClickHouse> {
  const server = { url: inject('clickHouseUrl'), cluster, timeoutMs: 30_000 };
  const database = `test_${randomBytes(6).toString('hex')}`;
  const administer = async (statement: string) => {
    const connection = openClickHouse({ ...server, database: 'default' });
    await connection.run(raw(statement)).finally(connection.close);
  };
  await administer(`create database ${database} ${everywhere}`);
  const options = { ...server, database };
  const clickhouse = openClickHouse(options);
  return {
    clickhouse,
    options,
    environment: {
      PURCHASES_ENGINE: 'clickhouse',
      CLICKHOUSE_URL: server.url,
      CLICKHOUSE_DATABASE: database,
      ...(cluster === undefined ? {} : { CLICKHOUSE_CLUSTER: cluster }),
    },
    drop: async () => {
      await clickhouse.close();
      await administer(`drop database ${database} ${everywhere} sync`);
    },
  };
}

export type ClickHouseWorkerOptions = TestWorkerOptions &
  Pick<ClickHouseStoreOptions, 'graceMs' | 'maxWriters'>;

/** A worker in the process of the test that publishes in ClickHouse. */
export async function createClickHouseWorker(
  clickhouse: ClickHouse,
  database: Database,
  dataDirectory: string,
  options: ClickHouseWorkerOptions = {},
): Promise<Worker> {
  const log = createRecordedLog();
  const folder = { database, dataDirectory, dataFolderId: await dataFolderId(dataDirectory) };
  const store = createClickHouseStore({
    ...{ database, clickhouse, dataDirectory, log, shard: everyOrganization },
    changesRetentionMs: 30 * 86_400_000,
    ...options,
  });
  return createWorker({
    ...folder,
    store,
    builder: createClickHouseBuilder(store, { database, clickhouse }),
    concurrency: 2,
    pollIntervalMs: 20,
    log,
    ...options,
  });
}

export const createTestClickHouseEngine = (options: ClickHouseOptions) =>
  createClickHouseEngine(openClickHouse(options), {
    concurrency: 3,
    queueLimit: 500,
    queueLimitPerClient: 100,
    timeoutMs: options.timeoutMs,
  });
