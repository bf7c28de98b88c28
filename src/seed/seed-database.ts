import pg from 'pg';
import { instantOf } from './instants.ts';
import { createOrganizationProfile } from './organization-profile.ts';
import { seedOrganization } from './seed-organization.ts';

export type SeedOptions = {
  organizations: number;
  /** Per organization. */
  customers: number;
  /** Per organization. */
  purchases: number;
  /** The same options on an empty database give the same rows, ids included. */
  seed: number;
  /** The moment that the data was taken: nothing but scheduled campaigns lies after it. */
  until: Date;
  /** Purchases of all organizations. */
  onProgress?: (done: number, total: number) => void;
};

export type SeededOrganization = { organizationId: bigint; name: string };

/**
 * Fills a migrated database with shops that look real. Each organization becomes
 * visible at once with all that belongs to it; if one fails, those before it stay.
 */
export async function seedDatabase(
  databaseUrl: string,
  options: SeedOptions,
): Promise<SeededOrganization[]> {
  checkOptions(options);
  const { organizations, customers, purchases, seed, onProgress } = options;
  const until = instantOf(options.until);
  const client = new pg.Client({ connectionString: databaseUrl });
  // A connection that is lost fails its query, too.
  client.on('error', () => {});
  await client.connect();
  try {
    const seeded: SeededOrganization[] = [];
    for (let index = 0; index < organizations; index++) {
      const profile = createOrganizationProfile(seed, index, until);
      // Without a commit, closing the connection rolls back, also amid a broken COPY.
      await client.query('begin');
      const organizationId = await seedOrganization(client, profile, {
        customers,
        purchases,
        onProgress: (done) => onProgress?.(index * purchases + done, organizations * purchases),
      });
      await client.query('commit');
      seeded.push({ organizationId: BigInt(organizationId), name: profile.name });
    }
    return seeded;
  } finally {
    await client.end();
  }
}

function checkOptions({ organizations, customers, purchases, seed, until }: SeedOptions): void {
  for (const [name, value] of Object.entries({ organizations, customers, purchases })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`${name} must be a whole number, not ${value}`);
    }
  }
  if (!Number.isSafeInteger(seed)) throw new RangeError(`seed must be a whole number, not ${seed}`);
  if (purchases > 0 && customers === 0) throw new RangeError('purchases need customers');
  if (Number.isNaN(until.getTime())) throw new RangeError('until must be a valid date');
}
