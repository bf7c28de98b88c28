import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import {
  organizationDirectory,
  type PublishedGeneration,
} from '../../purchase-store/published-generation.ts';
import { attachGeneration } from './attach-generation.ts';
import type { Generation } from './labels.ts';

/** A generation that questions can be put to. */
export type Attached = {
  readonly generation: Generation;
  readonly published: PublishedGeneration;
  /** Its file, opened: the worker may have removed it meanwhile. */
  readonly descriptor: number;
  /** How many questions it answers now. */
  users: number;
  /** Whether it is detached when the last of them is answered. */
  retired: boolean;
};

export type Attachments = {
  /** Rejects, with nothing attached, where the generation cannot be served. */
  attach(
    organizationId: bigint,
    published: PublishedGeneration,
    options: { readonly warm: boolean },
  ): Promise<Attached>;
  /** Keeps it until that is taken back, by calling what it gives. */
  use(attached: Attached): () => Promise<void>;
  /** Detaches it as soon as nobody uses it. */
  retire(attached: Attached): Promise<void>;
  close(): Promise<void>;
};

/** Attaches published generations to a DuckDB instance, and detaches them. */
export function createAttachments(instance: DuckDBInstance, dataDirectory: string): Attachments {
  const connection = instance.connect();
  let attachments = 0;

  const detachUnused = async (attached: Attached): Promise<void> => {
    if (!attached.retired || attached.users > 0) return;
    await (await connection).run(`detach ${attached.generation.catalog}`);
    closeSync(attached.descriptor);
  };

  return {
    async attach(organizationId, published, options) {
      attachments += 1;
      const catalog = `generation_${attachments}`;
      const path = join(organizationDirectory(dataDirectory, organizationId), published.file);
      const descriptor = openSync(path, 'r');
      try {
        const attaching = await connection;
        const generation = await attachGeneration(
          attaching,
          catalog,
          path,
          organizationId,
          options,
        );
        return { generation, published, descriptor, users: 0, retired: false };
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
      attached.retired = true;
      await detachUnused(attached);
    },

    async close() {
      (await connection).closeSync();
    },
  };
}
