import { type SeededOrganization, type SeedOptions, seedDatabase } from '../seed/seed-database.ts';

/** Seeds the database, and prints a line for every tenth on standard error. */
export function seedWithProgress(
  databaseUrl: string,
  options: Omit<SeedOptions, 'onProgress'>,
): Promise<SeededOrganization[]> {
  let tenths = 0;
  return seedDatabase(databaseUrl, {
    ...options,
    onProgress(done, total) {
      const reached = Math.floor((done / total) * 10);
      if (reached <= tenths) return;
      tenths = reached;
      console.error(`Seeded ${done} of ${total} purchases.`);
    },
  });
}
