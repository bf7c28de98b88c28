import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../process/json-file.ts';
import {
  instantText,
  namesIn,
  purchasesDirectory,
  stampOf,
  watermarkFields,
} from '../format/current.ts';
import { layoutVersion } from '../format/layout.ts';
import { isOfShard, type Shard, shardName } from './shard.ts';

const watermark = z.object(watermarkFields);

/** The watermark of a tick, or of an exception of it. */
export type TickWatermark = z.output<typeof watermark>;

const organizationId = z.string().regex(/^\d+$/);
const exceptions = z.record(organizationId, watermark);
const logEnds = z.record(organizationId, z.number().int());

/**
 * The watermarks of organizations that a tick does not include, by id: they are loading, behind, or
 * failing (published.ts).
 */
export type Exceptions = Readonly<z.output<typeof exceptions>>;

/** The ends of published logs, by id of the organization (published.ts). */
export type LogEnds = Readonly<z.output<typeof logEnds>>;

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
  /** The identity of the database (postgres/connection/source-identity.ts). */
  database: z.string(),
  /** The instant of the worker's last poll: later than `asOf` while a mapping is behind. */
  polledAt: instantText.optional(),
  /**
   * The ends of logs that have changed since `synced`. With 20 of them, a publication and its read take
   * 0.3 ms; with the logs of 10,000 organizations, 8 ms.
   */
  logEnds: logEnds.default({}),
  /** The last tick whose batches are on the disk, with the name of the file of all ends of logs. */
  synced: z.object({
    ...published,
    logEnds: z
      .string()
      .regex(/^\d+-of-\d+\.log-ends-[0-9a-f]{16}$/)
      .nullable()
      .default(null),
  }),
  /** The start of the operating system. After another one, batches later than `synced` may be lost. */
  boot: z.string(),
});
export type StoredTick = z.output<typeof storedTick>;

type WithExceptions<Stored> = Omit<Stored, 'exceptions'> & { readonly exceptions: Exceptions };
/** What a worker publishes for all of its organizations at once, in a file or in ClickHouse. */
export type Tick = WithExceptions<
  Omit<StoredTick, 'layoutVersion' | 'synced' | 'logEnds' | 'boot'>
>;
export type SyncedTick = WithExceptions<Omit<StoredTick['synced'], 'logEnds'>> & {
  readonly logEnds: LogEnds;
};
export type TickFile = Tick &
  Pick<StoredTick, 'logEnds' | 'boot'> & { readonly synced: SyncedTick };

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
  /** The files that the tick names, by name. They never change. */
  readonly files: NamedFiles;
};

type NamedFiles = ReadonlyMap<string, Exceptions | LogEnds>;

/** Null if a file is unreadable. Files that are `known` are not read again. */
function readTick(path: string, boot: string, known: NamedFiles = new Map()): ReadTick | null {
  let incomplete: number | null = null;
  for (;;) {
    const stored = readJsonFile(path, storedTick);
    if (stored === null || stored.tick === incomplete) return null;
    const read = readNamedFiles(dirname(path), afterBoot(stored, boot), known);
    if (read !== null) return read;
    // The worker may have published another tick meanwhile, and removed the files of this one.
    incomplete = stored.tick;
  }
}

/** After another start of the operating system, the tick is the last one that is on the disk. */
function afterBoot(stored: StoredTick, boot: string): StoredTick {
  return stored.boot === boot ? stored : { ...stored, ...stored.synced, logEnds: {} };
}

const nothing = {};

function readNamedFiles(
  directory: string,
  { layoutVersion: _, synced, ...tick }: StoredTick,
  known: NamedFiles,
): ReadTick | null {
  const files = new Map<string, Exceptions | LogEnds>();
  /** Null if the file is unreadable. */
  const read = <Content extends Exceptions | LogEnds>(
    name: string | null,
    schema: z.ZodType<Content>,
  ): Content | null => {
    if (name === null) return nothing as Content;
    const content =
      files.get(name) ?? known.get(name) ?? readJsonFile(join(directory, name), schema);
    if (content !== null) files.set(name, content);
    return content as Content | null;
  };
  const ofTick = read(tick.exceptions, exceptions);
  const ofSynced = read(synced.exceptions, exceptions);
  const ends = read(synced.logEnds, logEnds);
  if (ofTick === null || ofSynced === null || ends === null) return null;
  const content = {
    ...tick,
    exceptions: ofTick,
    synced: { ...synced, exceptions: ofSynced, logEnds: ends },
  };
  return { content, files };
}

/** The newest tick among those of workers that have the organization; null if there is none. */
export function newestTick<Published extends Tick>(
  ticks: Iterable<Published>,
  organizationId: bigint,
): Published | null {
  let newest: Published | null = null;
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
    const tick = readTick(path, boot, before?.files);
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
