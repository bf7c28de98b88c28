import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { deltaPath } from '../files/delta-file.ts';

// The name of a generation ends with the number of its base: `<instant>-<random>-<base>.duckdb`.
const generationPattern = /^\d+-[0-9a-f]+-([0-9a-f]+)\.duckdb$/;
const numberOfBase = (name: string): string | null =>
  /^base-([0-9a-f]+)\.duckdb$/.exec(name)?.[1] ?? null;
export const generationName = (asOf: bigint, base: string): string =>
  `${asOf}-${randomBytes(4).toString('hex')}-${numberOfBase(base)}.duckdb`;

/** Also removes the files of interrupted attempts, and generations of earlier layouts. */
export async function removeOldGenerations(
  directory: string,
  current: string | null,
  kept: number,
): Promise<void> {
  const names = await readdir(directory);
  const others = names
    .filter((name) => generationPattern.test(name) && name !== current)
    .sort((a, b) => (BigInt(a.split('-')[0] ?? 0) < BigInt(b.split('-')[0] ?? 0) ? 1 : -1));
  const interrupted = names.filter((name) => /^\d+-[0-9a-f-]+\.duckdb\.tmp(\.wal)?$/.test(name));
  const earlier = names.filter((name) => /^\d+-[0-9a-f]+\.duckdb$/.test(name));
  for (const name of [...others.slice(kept), ...interrupted, ...earlier]) {
    // Readers with an open file keep the content until they close the file.
    await rm(join(directory, name), { force: true });
  }
}

/**
 * Removes the bases that neither a generation nor the live delta, with the base `ofLive`, uses. Call
 * it while no build is about to use another base.
 */
export async function removeUnusedBases(directory: string, ofLive: string | null): Promise<void> {
  if (existsSync(deltaPath(directory, 'next'))) return;
  const names = await readdir(directory);
  const used = new Set(names.map((name) => generationPattern.exec(name)?.[1]));
  for (const name of names) {
    const number = numberOfBase(name);
    if (number === null || name === ofLive || used.has(number)) continue;
    await rm(join(directory, name), { force: true });
  }
}
