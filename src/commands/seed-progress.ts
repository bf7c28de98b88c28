import { Presets, SingleBar } from 'cli-progress';
import { type SeededOrganization, type SeedOptions, seedDatabase } from '../seed/seed-database.ts';

/** Seeds the database, and shows the progress. */
export async function seedWithProgress(
  databaseUrl: string,
  options: Omit<SeedOptions, 'onProgress'>,
): Promise<SeededOrganization[]> {
  const progress = seedProgress(options.organizations * options.purchases);
  try {
    return await seedDatabase(databaseUrl, { ...options, onProgress: progress.update });
  } finally {
    progress.stop();
  }
}

/** A progress bar on a terminal, otherwise a line for every tenth, on standard error. */
function seedProgress(total: number): {
  readonly update: (done: number) => void;
  readonly stop: () => void;
} {
  if (!process.stderr.isTTY) return progressLines(total);
  const bar = new SingleBar(
    { format: 'Seeding {bar} {percentage} % | {value}/{total} purchases | {eta_formatted} left' },
    Presets.shades_classic,
  );
  bar.start(total, 0);
  return { update: (done) => bar.update(done), stop: () => bar.stop() };
}

function progressLines(total: number) {
  let tenths = 0;
  return {
    update(done: number) {
      const reached = Math.floor((done / total) * 10);
      if (reached <= tenths) return;
      tenths = reached;
      console.error(`Seeded ${done} of ${total} purchases.`);
    },
    stop() {},
  };
}
