import type { FastifyInstance } from 'fastify';
import type { PurchaseEngine, PurchaseReader } from '../../../src/domain/purchase-engine.ts';
import { defaultShortcuts } from '../../../src/duckdb/shortcuts.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { createCheckedApp } from '../../support/openapi.ts';
import { testServices } from '../../support/services.ts';

export type Answer = {
  readonly status: number;
  readonly body: string;
  readonly asOf: string | undefined;
  /** The opaque cursor of the next page. */
  readonly next: string | undefined;
};

/** The key of an organization. */
export type Key = { readonly organization: bigint; readonly secret: string };

/** An API over one engine, without the engine that answers while files are missing. */
export type Reader = { ask(url: string): Promise<Answer> };

export type Readers = {
  /** Opens the reader of an organization, in place of the one before. */
  open(engine: PurchaseEngine, key: Key, responseCacheBytes?: number): Reader;
  close(): Promise<void>;
};

/** Readers share HTTP applications, because one takes longer to create than a question. */
export function createReaders(database: Database): Readers {
  let opened = 0;
  const engines = new Map<bigint, Opened>();
  const services = testServices(database, delegateTo(engines));
  const apps = new Map<number, FastifyInstance>();
  const appOf = (responseCacheBytes: number) => {
    const options = { services, rateLimitPerMinute: 1_000_000, responseCacheBytes };
    const app = apps.get(responseCacheBytes) ?? createCheckedApp(options);
    apps.set(responseCacheBytes, app);
    return app;
  };
  return {
    open(engine, { organization, secret }, cacheBytes = defaultShortcuts.responseCacheBytes) {
      const app = appOf(cacheBytes);
      opened += 1;
      engines.set(organization, { engine, name: opened });
      return {
        async ask(url) {
          const headers = { authorization: `Bearer ${secret}` };
          const { statusCode, body, headers: given } = await app.inject({ url, headers });
          const [asOf, next] = [given['x-data-as-of'], given['x-next-cursor']].map((value) =>
            value === undefined ? undefined : String(value),
          );
          return { status: statusCode, body, asOf, next };
        },
      };
    },
    async close() {
      for (const app of apps.values()) await app.close();
    },
  };
}

/** The engine of an organization's reader. */
type Opened = { readonly engine: PurchaseEngine; readonly name: number };

/** Versions have the name of their reader, so that no response is cached for the next one. */
function delegateTo(engines: ReadonlyMap<bigint, Opened>): PurchaseEngine {
  const delegate = (source: string | null): PurchaseReader => {
    const of = (organization: bigint): PurchaseReader => {
      const { engine } = engines.get(organization) as Opened;
      return source === null ? engine : engine.forSource(source);
    };
    return {
      list: (id, ...query) => of(id).list(id, ...query),
      get: (id, ...query) => of(id).get(id, ...query),
      report: (id, ...query) => of(id).report(id, ...query),
      cohorts: (id, ...query) => of(id).cohorts(id, ...query),
      export: (id, ...query) => of(id).export(id, ...query),
      freshness: (id) => of(id).freshness(id),
      waitUntilFresh: (id, ...query) => of(id).waitUntilFresh(id, ...query),
      async version(id) {
        const version = await of(id).version(id);
        return version && { ...version, name: `${engines.get(id)?.name} ${version.name}` };
      },
    };
  };
  return { ...delegate(null), forSource: delegate, close: async () => {} };
}
