import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../process/json-file.ts';
import { namesIn, purchasesDirectory, stampOf, watermarkFields } from '../format/current.ts';
import { layoutVersion } from '../format/layout.ts';
import { isOfShard, type Shard, shardName } from './shard.ts';

const watermark = z.object(watermarkFields);

/** The watermark of a tick, or of an exception of it. */
export type TickWatermark = z.output<typeof watermark>;

const exceptions = z.record(z.string().regex(/^\d+$/), watermark);

/**
 * The watermarks of organizations that a tick does not include, by id: they are loading, behind, or
 * failing (organization-watermark.ts).
 */
export type Exceptions = Readonly<z.output<typeof exceptions>>;

/** A published tick, with the name of the file of its exceptions. */
const published = {
  /** The number of the tick. Each publication has a greater one, also after a restart. */
  tick: z.number().int(),
  ...watermarkFields,
  /**
   * The file of the exceptions, which never changes; null without exceptions. Ticks are published ten times
   * a second, and 10,000 exceptions are 1.3 MB that seldom change.
   */
  exceptions: z
    .string()
    .regex(/^\d+-of-\d+\.exceptions-[0-9a-f]{16}$/)
    .nullable(),
};

/**
 * The last tick that a worker published. Replacing this file by rename is the only publication:
 * readers apply no batch of a later tick.
 */
const storedTick = z.object({
  /** An API of another version shows no tick of a worker that loads its organizations again. */
  layoutVersion: z.literal(layoutVersion),
  shard: z.object({ number: z.number().int(), of: z.number().int() }),
  ...published,
  /** The fingerprint of the table and its triggers, as in CURRENT. */
  fingerprint: z.string(),
  /** The identity of the database (postgres/source-identity.ts). */
  database: z.string(),
  /** The last tick whose batches are on the disk. */
  synced: z.object(published),
  /** The start of the operating system. After another one, batches later than `synced` may be lost. */
  boot: z.string(),
});
export type StoredTick = z.output<typeof storedTick>;

type WithExceptions<Stored> = Omit<Stored, 'exceptions'> & { readonly exceptions: Exceptions };
export type PublishedTick = WithExceptions<StoredTick['synced']>;
export type TickFile = WithExceptions<Omit<StoredTick, 'layoutVersion' | 'synced'>> & {
  readonly synced: PublishedTick;
};

export const ticksDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'ticks');
const suffix = '.json';

export const tickPath = (dataDirectory: string, shard: Shard): string =>
  join(ticksDirectory(dataDirectory), shardName(shard) + suffix);

/** Identifies the start of the operating system; empty where it has no such id. */
export function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

/** The ticks of all workers of a data folder, also of those that ran with other shards. */
export function readTicks(dataDirectory: string, boot = readBootId()): TickFile[] {
  const directory = ticksDirectory(dataDirectory);
  return namesIn(directory).flatMap((name) => {
    const read = name.endsWith(suffix) ? readTick(join(directory, name), boot) : null;
    return read === null ? [] : [read.content];
  });
}

type ReadTick = {
  readonly content: TickFile;
  /** The exceptions of the tick by the names of their files. */
  readonly exceptions: ReadonlyMap<string, Exceptions>;
};

/** Null if a file is unreadable. Exceptions that are `known` are not read again. */
function readTick(
  path: string,
  boot: string,
  known: ReadTick['exceptions'] = new Map(),
): ReadTick | null {
  let incomplete: number | null = null;
  for (;;) {
    const stored = readJsonFile(path, storedTick);
    if (stored === null || stored.tick === incomplete) return null;
    const read = readExceptions(dirname(path), afterBoot(stored, boot), known);
    if (read !== null) return read;
    // The worker may have published another tick meanwhile, and removed the exceptions of this one.
    incomplete = stored.tick;
  }
}

/** After another start of the operating system, the tick is the last one that is on the disk. */
function afterBoot(stored: StoredTick, boot: string): StoredTick {
  return stored.boot === boot ? stored : { ...stored, ...stored.synced };
}

const noExceptions: Exceptions = {};

function readExceptions(
  directory: string,
  { layoutVersion: _, synced, ...tick }: StoredTick,
  known: ReadTick['exceptions'],
): ReadTick | null {
  const read = new Map<string, Exceptions>();
  for (const name of [tick.exceptions, synced.exceptions]) {
    if (name === null || read.has(name)) continue;
    const content = known.get(name) ?? readJsonFile(join(directory, name), exceptions);
    if (content === null) return null;
    read.set(name, content);
  }
  const exceptionsOf = (name: string | null) => read.get(name ?? '') ?? noExceptions;
  const content = {
    ...tick,
    exceptions: exceptionsOf(tick.exceptions),
    synced: { ...synced, exceptions: exceptionsOf(synced.exceptions) },
  };
  return { content, exceptions: read };
}

/** The newest tick among those of workers that have the organization; null if there is none. */
export function newestTick<Tick extends TickFile>(
  ticks: Iterable<Tick>,
  organizationId: bigint,
): Tick | null {
  let newest: Tick | null = null;
  for (const tick of ticks) {
    if (!isOfShard(organizationId, tick.shard)) continue;
    if (newest === null || tick.tick > newest.tick) newest = tick;
  }
  return newest;
}

export type TickReader = {
  /** The newest published tick of the organization; null if there is none. */
  of(organizationId: bigint): TickFile | null;
  /** The snapshots of all ticks. While they stay the same, no tick has published changes. */
  snapshots(): string;
};

const maxAgeMs = 50;

/**
 * Reads the published ticks of a data folder again once the folder has changed. Two changes may leave
 * one timestamp, so also after `maxAgeMs`.
 */
export function createTickReader(dataDirectory: string): TickReader {
  const directory = ticksDirectory(dataDirectory);
  const boot = readBootId();
  let known = new Map<string, ReadTick & { readonly stamp: string | null }>();
  let readAt = Number.NEGATIVE_INFINITY;
  let readStamp: string | null = null;

  const refresh = () => {
    const folderStamp = stampOf(directory);
    if (folderStamp === readStamp && performance.now() - readAt < maxAgeMs) return;
    const names = namesIn(directory);
    // Without a free descriptor, the folder cannot be listed.
    if (names.length === 0 && folderStamp !== null) return;
    const latest: typeof known = new Map();
    for (const name of names) {
      if (!name.endsWith(suffix)) continue;
      const path = join(directory, name);
      const stamp = stampOf(path);
      const before = known.get(name);
      const content = before?.stamp === stamp ? before : read(path, stamp, before);
      // The earlier content of an unreadable file stays, so that no instant goes back.
      const usable = content ?? before;
      if (usable !== undefined) latest.set(name, usable);
    }
    known = latest;
    readStamp = folderStamp;
    readAt = performance.now();
  };
  const read = (path: string, stamp: string | null, before: ReadTick | undefined) => {
    const tick = readTick(path, boot, before?.exceptions);
    return tick === null ? undefined : { stamp, ...tick };
  };

  return {
    of(organizationId) {
      refresh();
      return newestTick(
        [...known.values()].map(({ content }) => content),
        organizationId,
      );
    },
    snapshots() {
      refresh();
      return [...known.values()].map(({ content }) => content.snapshot).join(' ');
    },
  };
}
