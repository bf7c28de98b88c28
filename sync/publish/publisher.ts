import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { PublishedGeneration } from '../../src/purchase-store/published-generation.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { type Publication, publish, readUsablePublication } from './publish.ts';

/** Knows what an organization's readers have, and gives them what its live file shows. */
export type Publisher = {
  /** What was published, or found to be; null where neither is known to have succeeded. */
  current(): PublishedGeneration | null;
  publish(live: PurchaseFile): Promise<Publication>;
  /** Not where readers have it already. */
  publishIfNew(live: PurchaseFile): Promise<Publication>;
};

export function createPublisher(log: Logger): Publisher {
  let published: PublishedGeneration | null = null;

  const publishNow = async (live: PurchaseFile): Promise<Publication> => {
    // Where that fails, it may have failed after readers were told.
    published = null;
    const publication = await publish(live);
    published = publication.generation;
    const { file, purchases } = publication.generation;
    log.debug({ file, purchases, copyMs: Math.round(publication.copyMs) }, 'published');
    return publication;
  };

  return {
    current: () => published,
    publish: publishNow,
    async publishIfNew(live) {
      // Opened and looked at once; a generation never changes.
      published ??= await readUsablePublication(live);
      return published !== null && isShown(live, published)
        ? { generation: published, copyMs: 0 }
        : publishNow(live);
    },
  };
}

function isShown({ watermark, directory }: PurchaseFile, published: PublishedGeneration): boolean {
  return (
    // Also of the same snapshot it may be another content: what was built, or mended.
    published.asOf === watermark?.asOf &&
    published.token === watermark.token &&
    existsSync(join(directory, published.file))
  );
}
