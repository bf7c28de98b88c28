import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows, quotePath } from '../../duckdb/connection.ts';
import { layoutVersion } from '../../purchase-store/layout.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
} from '../../purchase-store/published-generation.ts';
import { createGeneration, type Generation } from './generation.ts';
import { listPurchases } from './list.ts';
import { purchaseStats } from './stats.ts';

/** A generation that queries can read. */
export type AttachedGeneration = {
  readonly generation: Generation;
  readonly published: PublishedGeneration;
  /** Its open file: the worker may have removed the name. */
  readonly descriptor: number;
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
  let attachments = 0;

  const detachUnused = async (attached: AttachedGeneration): Promise<void> => {
    if (!attached.isRetired || attached.users > 0) return;
    await (await connecting).run(`detach ${attached.generation.catalog}`);
    closeSync(attached.descriptor);
  };

  return {
    async attach(organizationId, published, { warm }) {
      attachments += 1;
      const catalog = `generation_${attachments}`;
      const path = join(organizationDirectory(dataDirectory, organizationId), published.file);
      const descriptor = openSync(path, 'r');
      try {
        const generation = await attachFile(await connecting, catalog, path, organizationId, warm);
        return { generation, published, descriptor, users: 0, isRetired: false };
      } catch (error) {
        closeSync(descriptor);
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

/** Rejects, with nothing attached, if the file is another organization's or incomplete. */
async function attachFile(
  connection: DuckDBConnection,
  catalog: string,
  path: string,
  organizationId: bigint,
  warm: boolean,
): Promise<Generation> {
  await connection.run(`attach ${quotePath(path)} as ${catalog} (read_only)`);
  try {
    const [watermark] = await queryRows(
      connection,
      sql`select organization_id, layout_version from ${raw(catalog)}.watermark`,
    );
    if (watermark?.[0] !== organizationId || watermark[1] !== layoutVersion) {
      throw new Error(`${path} is not the organization's file, or not complete`);
    }
    const generation = await createGeneration(connection, catalog);
    // The first queries on a new file are slow, so no request should run them.
    if (warm) {
      await purchaseStats(connection, generation, { filters: {}, groupLimit: 1 });
      await listPurchases(connection, generation, { filters: {}, limit: 1 });
    }
    return generation;
  } catch (error) {
    await connection.run(`detach ${catalog}`);
    throw error;
  }
}
