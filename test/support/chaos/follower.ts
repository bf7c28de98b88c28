import { setTimeout as sleep } from 'node:timers/promises';
import { purchaseColumns } from '../../../src/domain/purchase.ts';
import {
  NoChangeFeedError,
  UnknownFeedPositionError,
} from '../../../src/domain/purchase-changes.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { servedSource } from '../../../src/postgres/connection/source-identity.ts';
import { listOrganizations } from '../../../src/postgres/organizations.ts';
import { servedSourceOf } from '../../../src/purchase-store/ticks/published.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { createTestChangeFeed } from '../engines.ts';
import type { GenerationReader } from './generation.ts';
import type { Row } from './history.ts';
import { isConnectionLoss, isDatabaseReplaced } from './writers.ts';

/** A copy of an organization's purchases, and the position of its changes. */
type Copy = { after: string; readonly rows: Map<bigint, Row> };

export type Followers = {
  /** Follows random organizations at random times. Some steps end before the position is kept. */
  followAtRandom(database: Database, random: RandomSource, signal: AbortSignal): Promise<void>;
  /** The copy of the organization with all changes. */
  upToDate(database: Database, organizationId: bigint): Promise<readonly Row[]>;
  /** How many pages had changes, and how many copies were made. */
  counts(): { readonly pages: number; readonly copies: number };
  close(): void;
};

/** Copies of all organizations that follow the change feed. `reader` is theirs alone. */
export function createFollowers(dataDirectory: string, reader: GenerationReader): Followers {
  const feed = createTestChangeFeed(dataDirectory);
  const copies = new Map<string, Copy>();
  const counts = { pages: 0, copies: 0 };

  /** Null without a feed; otherwise whether there is more. */
  const step = async (
    database: Database,
    id: bigint,
    limit: number,
    isEnding: boolean,
  ): Promise<{ readonly copy: Copy; readonly hasMore: boolean } | null> => {
    const source = await servedSourceIn(database, id);
    if (source === null) return null;
    const known = copies.get(source);
    try {
      const page = await feed.read(id, source, { after: known?.after ?? null, limit });
      if (known === undefined) {
        const generation = await reader.read(id);
        if (generation === null || servedSourceOf(generation.current) !== source) return null;
        const rows = new Map(generation.rows.map((row) => [row[0] as bigint, row]));
        const copy = { after: page.next, rows };
        copies.set(source, copy);
        counts.copies += 1;
        return { copy, hasMore: true };
      }
      if (page.changes.length > 0) counts.pages += 1;
      for (const { id: purchase, purchase: values } of page.changes) {
        if (values === null) known.rows.delete(purchase);
        else
          known.rows.set(
            purchase,
            purchaseColumns.map(({ name }) => values[name]),
          );
      }
      if (!isEnding) known.after = page.next;
      return { copy: known, hasMore: page.hasMore };
    } catch (error) {
      if (error instanceof UnknownFeedPositionError) {
        copies.delete(source);
        return step(database, id, limit, isEnding);
      }
      if (error instanceof NoChangeFeedError) return null;
      throw error;
    }
  };

  return {
    async followAtRandom(database, random, signal) {
      while (!signal.aborted) {
        await sleep(random.between(0, 200), undefined, { signal }).catch(() => {});
        const [order, isEnding] = [random.fraction(), random.chance(0.2)];
        const limit = 1 + random.integer(200);
        try {
          const organizations = await listOrganizations(database);
          const organization = organizations[Math.floor(order * organizations.length)];
          if (organization !== undefined) await step(database, organization.id, limit, isEnding);
        } catch (error) {
          if (!isConnectionLoss(error) && !isDatabaseReplaced(error)) throw error;
        }
      }
    },

    async upToDate(database, id) {
      for (;;) {
        const stepped = await step(database, id, 1_000, false);
        if (stepped === null) return [];
        if (!stepped.hasMore) return [...stepped.copy.rows.values()];
      }
    },

    counts: () => counts,
    close: feed.close,
  };
}

/** The source of the feed's requests; null if the organization was deleted. */
async function servedSourceIn(database: Database, organizationId: bigint): Promise<string | null> {
  const { rows } = await database.query<{ source: string }>(
    `select ${servedSource} as source from organizations where id = $1`,
    [organizationId],
  );
  return rows[0]?.source ?? null;
}
