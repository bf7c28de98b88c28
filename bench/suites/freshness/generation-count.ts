import { statSync } from 'node:fs';
import {
  currentFile,
  organizationDirectory,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import type { Scope } from '../../runner/scope.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

export type GenerationCount = {
  readonly generations: number;
  /** The sizes of their files, summed: each was copied. */
  readonly bytes: number;
};

/** Often enough to see each: the worker publishes an organization every 250 ms at most. */
const pollIntervalMs = 50;

/** Counts the generations that are published from now on, as long as the scope lives. */
export function countGenerations(
  scope: Scope,
  dataDirectory: string,
  shops: readonly BenchmarkShop[],
): () => GenerationCount {
  const followed = shops.map(({ organizationId }) => {
    const directory = organizationDirectory(dataDirectory, organizationId);
    return { directory, seen: stampOf(directory) };
  });
  const count = { generations: 0, bytes: 0 };
  const look = () => {
    for (const organization of followed) {
      const stamp = stampOf(organization.directory);
      if (stamp === organization.seen) continue;
      organization.seen = stamp;
      count.generations += 1;
      count.bytes += readPublished(organization.directory)?.bytes ?? 0;
    }
  };
  const polling = setInterval(look, pollIntervalMs);
  scope.afterwards(async () => clearInterval(polling));
  return () => ({ ...count });
}

function stampOf(directory: string): string | null {
  const stats = statSync(currentFile(directory), { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.ino}:${stats.mtimeNs}`;
}
