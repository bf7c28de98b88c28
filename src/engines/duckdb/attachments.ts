import { closeSync, openSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import type { FileDescriptors } from '../../domain/purchase-engine.ts';
import { detach, queryRows, quotePath } from '../../duckdb/connection.ts';
import { createSharedFiles, type SharedFile } from '../../duckdb/shared-files.ts';
import { layoutVersion, requireBase } from '../../purchase-store/layout.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
} from '../../purchase-store/published-generation.ts';
import type { StoreCatalogs } from '../../purchase-store/relations.ts';
import {
  type BaseCache,
  createBaseCache,
  createGeneration,
  type Generation,
} from './generation.ts';
import { listPurchases } from './list.ts';
import { purchaseStats } from './stats.ts';

/** The resources of an attached base. */
type Base = { readonly descriptor: number; readonly cache: BaseCache };

/** A generation that queries can read. */
export type AttachedGeneration = {
  readonly generation: Generation;
  readonly published: PublishedGeneration;
  /** Its base, which other generations may read too. */
  readonly base: SharedFile<Base>;
  /** Its open files: the worker may have removed the names. */
  readonly descriptors: FileDescriptors;
  /** The number of queries that read it. */
  users: number;
  /** Whether the end of the last query detaches it. */
  isRetired: boolean;
};

export type Attachments = {
  /** Rejects, with nothing attached, if the generation cannot be served. */
  attach(
    organizationId: bigint,
    published: PublishedGeneration,
    options: { readonly warm: boolean },
  ): Promise<AttachedGeneration>;
  /** Keeps the generation attached until the returned function is called. */
  use(attached: AttachedGeneration): () => Promise<void>;
  /** Detaches the generation as soon as no query reads it. */
  retire(attached: AttachedGeneration): Promise<void>;
  close(): Promise<void>;
};

/** Attaches published generations to a DuckDB instance, and detaches them. */
export function createAttachments(instance: DuckDBInstance, dataDirectory: string): Attachments {
  const connecting = instance.connect();
  const bases = createSharedFiles(instance, {
    async open(connection, catalog, path) {
      await requireBase(connection, catalog, basename(path));
      return { descriptor: openSync(path, 'r'), cache: createBaseCache() };
    },
    close: ({ descriptor }: Base) => closeSync(descriptor),
  });
  let attachments = 0;

  const detachUnused = async (attached: AttachedGeneration): Promise<void> => {
    if (!attached.isRetired || attached.users > 0) return;
    try {
      await detach(await connecting, attached.generation.catalogs.delta);
    } finally {
      closeSync(attached.descriptors.delta);
      await attached.base.release();
    }
  };

  return {
    async attach(organizationId, published, { warm }) {
      const directory = organizationDirectory(dataDirectory, organizationId);
      const base = await bases.acquire(join(directory, published.base));
      let descriptor: number | null = null;
      try {
        attachments += 1;
        const catalogs = { base: base.catalog, delta: `delta_${attachments}` };
        const path = join(directory, published.file);
        descriptor = openSync(path, 'r');
        const connection = await connecting;
        await connection.run(`attach ${quotePath(path)} as ${catalogs.delta} (read_only)`);
        const generation = await openGeneration(connection, catalogs, organizationId, published, {
          warm,
          ofBase: base.content.cache,
        });
        const descriptors = { base: base.content.descriptor, delta: descriptor };
        return { generation, published, base, descriptors, users: 0, isRetired: false };
      } catch (error) {
        if (descriptor !== null) closeSync(descriptor);
        await base.release();
        throw error;
      }
    },

    use(attached) {
      attached.users += 1;
      return async () => {
        attached.users -= 1;
        await detachUnused(attached);
      };
    },

    async retire(attached) {
      attached.isRetired = true;
      await detachUnused(attached);
    },

    async close() {
      (await connecting).closeSync();
    },
  };
}

/** Rejects, with the delta detached, if it is another organization's or has another base. */
async function openGeneration(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  organizationId: bigint,
  { file, base }: PublishedGeneration,
  { warm, ofBase }: { readonly warm: boolean; readonly ofBase: BaseCache },
): Promise<Generation> {
  try {
    const [watermark] = await queryRows(
      connection,
      sql`select organization_id, layout_version, base from ${raw(catalogs.delta)}.watermark`,
    );
    const [organization, layout, baseOfDelta] = watermark ?? [];
    if (organization !== organizationId || layout !== layoutVersion || baseOfDelta !== base) {
      throw new Error(`${file} is not the organization's file, or not complete`);
    }
    const generation = await createGeneration(connection, catalogs, ofBase);
    // The first queries on a new file are slow, so no request should run them.
    if (warm) {
      await purchaseStats(connection, generation, { filters: {}, groupLimit: 1 });
      await listPurchases(connection, generation, { filters: {}, limit: 1 });
    }
    return generation;
  } catch (error) {
    await detach(connection, catalogs.delta);
    throw error;
  }
}
