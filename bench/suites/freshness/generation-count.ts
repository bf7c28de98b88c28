import { statSync } from 'node:fs';
import { join } from 'node:path';
import {
  currentFile,
  organizationDirectory,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import type { Scope } from '../../runner/scope.ts';
import type { PreparedShops } from '../../setup/prepared-shops.ts';

export type GenerationCount = {
  readonly generations: number;
  /** The total size of their deltas, each of which was copied. */
  readonly bytes: number;
};

/** The worker publishes an organization at most every 250 ms, so none is missed. */
const pollIntervalMs = 50;

/** Counts the generations that are published from now on until the scope ends. */
export function countGenerations(
  scope: Scope,
  { dataDirectory, shops }: PreparedShops,
): () => GenerationCount {
  const stampOf = (directory: string) => {
    const stats = statSync(currentFile(directory), { bigint: true, throwIfNoEntry: false });
    return `${stats?.ino}:${stats?.mtimeNs}`;
  };
  const directories = shops.map((shop) =>
    organizationDirectory(dataDirectory, shop.organizationId),
  );
  const stamps = new Map(directories.map((directory) => [directory, stampOf(directory)]));
  const count = { generations: 0, bytes: 0 };
  const polling = setInterval(() => {
    for (const [directory, known] of stamps) {
      const stamp = stampOf(directory);
      if (stamp === known) continue;
      stamps.set(directory, stamp);
      count.generations += 1;
      const delta = join(directory, readPublished(directory)?.file ?? '');
      count.bytes += statSync(delta, { throwIfNoEntry: false })?.size ?? 0;
    }
  }, pollIntervalMs);
  scope.afterwards(async () => clearInterval(polling));
  return () => ({ ...count });
}
