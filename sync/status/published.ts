import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import type { Generation } from '../capture/watermark.ts';

/** The published generation of an organization; `damaged` if its description cannot be read. */
export type PublishedStatus =
  | (Generation & { readonly purchases: number; readonly bytes: number })
  | 'damaged';

/** Reads the published generations of organizations. Others are missing from the result. */
export type ReadPublished = (
  organizations: readonly bigint[],
) => Promise<ReadonlyMap<bigint, PublishedStatus>>;

export const readPublishedFiles =
  (dataDirectory: string): ReadPublished =>
  async (organizations) => {
    const published = new Map<bigint, PublishedStatus>();
    for (const id of organizations) {
      try {
        const generation = readPublished(organizationDirectory(dataDirectory, id));
        if (generation !== null) published.set(id, { ...generation, name: generation.file });
      } catch {
        published.set(id, 'damaged');
      }
    }
    return published;
  };
