import type { PurchaseEngine } from '../../../src/domain/purchase-engine.ts';
import type { DuckDBEngine } from '../../../src/engines/duckdb/engine.ts';
import type { ServedOrganizations } from '../../../src/engines/duckdb/serving/served-organizations.ts';
import { createPostgresEngine } from '../../../src/engines/postgres/engine.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import type { Worker } from '../../../sync/worker/worker.ts';
import { createTestDuckDBEngine } from '../../support/engines.ts';
import { untilShown } from '../../support/published.ts';
import { createTestWorker, type TestWorkerOptions } from '../../support/sync.ts';
import { openEngine } from '../store.ts';
import type { Settings } from './settings.ts';

/** What a scenario publishes to, and reads from. */
type Store = {
  createWorker(options: TestWorkerOptions): Promise<Pick<Worker, 'once' | 'close'>>;
  /** Opens the engine, in place of the one before. */
  openEngine(): Promise<PurchaseEngine>;
  untilShown(organization: bigint): Promise<void>;
  /** Closes the files of an organization. */
  evict(organization: bigint): Promise<void>;
  close(): Promise<void>;
};

export async function openStore(
  database: Database,
  directory: string,
  settings: Settings,
): Promise<Store> {
  if (settings.engine === 'duckdb') return openFiles(database, directory, settings);
  const none = async () => {};
  if (settings.engine === 'postgres') {
    return {
      createWorker: async () => ({ once: none, close: none }),
      openEngine: async () => createPostgresEngine(database),
      ...{ untilShown: none, evict: none, close: none },
    };
  }
  const { engine, createWorker, close } = await openEngine(database, directory);
  const openSame = async () => engine;
  return { createWorker, openEngine: openSame, untilShown: none, evict: none, close };
}

function openFiles(database: Database, directory: string, { shortcuts }: Settings): Store {
  let engine: DuckDBEngine | undefined;
  return {
    createWorker: (options) => createTestWorker(database, directory, options),
    async openEngine() {
      await engine?.close();
      engine = await createTestDuckDBEngine(directory, {
        threads: 1,
        // Without shortcuts, purchases of thousands of years take seconds.
        timeoutMs: 120_000,
        shortcuts,
      });
      return engine;
    },
    async untilShown(organization) {
      if (engine !== undefined) await untilShown(engine, directory, organization);
    },
    async evict(organization) {
      const served = engine?.current().organizations as ServedOrganizations | undefined;
      await served?.all.get(organization)?.evict();
    },
    close: async () => engine?.close(),
  };
}
