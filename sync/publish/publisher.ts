import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { PublishedGeneration } from '../../src/purchase-store/published-generation.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import type { WorkerObserver } from '../metrics/observer.ts';
import { type Publication, publish, readUsablePublication } from './publish.ts';
import { removeUnusedBases } from './superseded-files.ts';

/** Publishes the live delta of an organization, and keeps the published generation. */
type Publisher = {
  /** Null if no generation is known to be published. */
  current(): PublishedGeneration | null;
  /** The last known publication, also while another one is published. */
  last(): Publication | null;
  publish(live: DeltaFile): Promise<Publication>;
  /** Publishes unless the published generation shows the live file already. */
  publishIfNew(live: DeltaFile): Promise<Publication>;
};

export function createPublisher(
  log: Logger,
  observer: WorkerObserver,
  isBuilding: () => boolean,
): Publisher {
  let published: Publication | null = null;
  let last: Publication | null = null;

  const publishNow = async (live: DeltaFile): Promise<Publication> => {
    // A failure may come before or after CURRENT is replaced.
    published = null;
    const startedAt = performance.now();
    const publication = await publish(live);
    last = published = publication;
    observer.published(publication.delta.bytes, performance.now() - startedAt);
    if (!isBuilding()) await removeUnusedBases(live.directory, live.base);
    const { file, purchases } = publication.generation;
    log.debug({ file, purchases, copyMs: Math.round(publication.copyMs) }, 'published');
    return publication;
  };

  return {
    current: () => published?.generation ?? null,
    last: () => last,
    publish: publishNow,
    async publishIfNew(live) {
      // Checked once, because a generation never changes.
      published ??= await readUsablePublication(live);
      last = published ?? last;
      return published !== null && isShown(live, published.generation)
        ? { ...published, copyMs: 0 }
        : publishNow(live);
    },
  };
}

function isShown(
  { watermark, base, directory }: DeltaFile,
  published: PublishedGeneration,
): boolean {
  return (
    // A rebuild or repair may publish other content of the same snapshot, with another token.
    published.asOf === watermark.asOf &&
    published.token === watermark.token &&
    published.base === base &&
    existsSync(join(directory, published.file))
  );
}
