import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { jsonOf, readJsonFile } from '../process/json-file.ts';
import { replaceFileSync } from '../process/replace-file.ts';
import { namesIn, purchasesDirectory, stampOf, watermarkFields } from './current.ts';
import { layoutVersion } from './layout.ts';
import { isOfShard, type Shard, shardName } from './shard.ts';

const watermark = z.object(watermarkFields);

/** What an organization or all organizations of a tick show. */
export type TickWatermark = z.output<typeof watermark>;

/** What a worker has published. */
const published = {
  /** The number of the tick. Each publication has a greater one, also after a restart. */
  tick: z.number().int(),
  ...watermarkFields,
  /**
   * Organizations that the tick does not include, by id: they are loading, behind, or failing. They
   * show this watermark, or that of CURRENT if it is later.
   */
  exceptions: z.record(z.string().regex(/^\d+$/), watermark),
};

/**
 * The last tick that a worker published. Replacing this file by rename is the only publication:
 * readers apply no batch of a later tick.
 */
const tickFile = z.object({
  shard: z.object({ number: z.number().int(), of: z.number().int() }),
  ...published,
  /** Of the table and its triggers (Current). */
  fingerprint: z.string(),
  /** The identity of the database (postgres/source-identity.ts). */
  database: z.string(),
  /** The last tick whose batches are on the disk. */
  synced: z.object(published),
  /** The start of the operating system. After another one, batches later than `synced` may be lost. */
  boot: z.string(),
});
export type TickFile = z.output<typeof tickFile>;

/** An API of another version shows no tick of a worker that loads its organizations again. */
const storedTick = tickFile.extend({ layoutVersion: z.literal(layoutVersion) });
export type PublishedTick = TickFile['synced'];

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

/** Publishes a tick. Not synced to the disk: `boot` tells what a crash of the machine may lose. */
export function publishTick(dataDirectory: string, content: TickFile): void {
  mkdirSync(ticksDirectory(dataDirectory), { recursive: true });
  const text = jsonOf({ layoutVersion, ...content });
  replaceFileSync(tickPath(dataDirectory, content.shard), `${text}\n`);
}

/** The ticks of all workers of a data folder, also of those that ran with other shards. */
export function readTicks(dataDirectory: string, boot = readBootId()): TickFile[] {
  const directory = ticksDirectory(dataDirectory);
  return namesIn(directory).flatMap((name) => {
    const content = name.endsWith(suffix) ? readJsonFile(join(directory, name), storedTick) : null;
    return content === null ? [] : [afterBoot(content, boot)];
  });
}

/** After another start of the operating system, the tick is the last one that is on the disk. */
function afterBoot(content: TickFile, boot: string): TickFile {
  return content.boot === boot ? content : { ...content, ...content.synced };
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
  let known = new Map<string, { readonly stamp: string | null; readonly content: TickFile }>();
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
      const content = before?.stamp === stamp ? before : read(path, stamp);
      // An unreadable file never makes an instant go back.
      const usable = content ?? before;
      if (usable !== undefined) latest.set(name, usable);
    }
    known = latest;
    readStamp = folderStamp;
    readAt = performance.now();
  };
  const read = (path: string, stamp: string | null) => {
    const content = readJsonFile(path, storedTick);
    return content === null ? undefined : { stamp, content: afterBoot(content, boot) };
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
