import { randomBytes } from 'node:crypto';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import { detach, quotePath, withDuckDBConnection } from './connection.ts';

/** An attached file, until it is released. */
export type SharedFile<Content> = {
  readonly catalog: string;
  readonly content: Content;
  release(): Promise<void>;
};

export type SharedFiles<Content> = {
  /** Attaches the file (read-only) unless it is attached. Rejects with nothing attached. */
  acquire(path: string): Promise<SharedFile<Content>>;
};

/** The resources of an attached file. `open` rejects if the file cannot be used. */
type SharedContent<Content> = {
  open(connection: DuckDBConnection, catalog: string, path: string): Promise<Content>;
  close(content: Content): void;
};

/**
 * Files that never change, attached once for all users: a DuckDB instance attaches no file
 * twice. The last release detaches the file.
 */
export function createSharedFiles<Content>(
  instance: DuckDBInstance,
  { open, close }: SharedContent<Content>,
): SharedFiles<Content> {
  type Attached = { readonly catalog: string; readonly content: Content; users: number };
  const attached = new Map<string, Attached>();
  // A file cannot be attached again before it is detached.
  const exclusively = new PQueue({ concurrency: 1 });

  const attach = (path: string): Promise<Attached> =>
    withDuckDBConnection(instance, async (connection) => {
      const catalog = `shared_${randomBytes(6).toString('hex')}`;
      await connection.run(`attach ${quotePath(path)} as ${catalog} (read_only)`);
      try {
        return { catalog, content: await open(connection, catalog, path), users: 0 };
      } catch (error) {
        await detach(connection, catalog);
        throw error;
      }
    });

  const release = async (path: string, file: Attached): Promise<void> => {
    file.users -= 1;
    if (file.users > 0) return;
    attached.delete(path);
    close(file.content);
    await withDuckDBConnection(instance, (connection) => detach(connection, file.catalog));
  };

  return {
    acquire: (path) =>
      exclusively.add(async () => {
        const file = attached.get(path) ?? (await attach(path));
        attached.set(path, file);
        file.users += 1;
        return {
          catalog: file.catalog,
          content: file.content,
          release: () => exclusively.add(() => release(path, file)),
        };
      }),
  };
}
