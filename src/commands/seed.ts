import { InvalidArgumentError } from 'commander';
import { encodeId } from '../domain/public-id.ts';
import { createPool } from '../postgres/connection/pool.ts';
import { createApiKey } from '../postgres/keys/api-keys.ts';
import { migrate } from '../postgres/schema/migrate.ts';
import { type SeededOrganization, seedWithProgress } from '../seed/seed-database.ts';
import { createCommand, runProgram, wholeNumberOption } from './command-line.ts';
import { commandDatabase } from './database.ts';

type Options = {
  readonly organizations: number;
  readonly customers: number;
  readonly purchases: number;
  readonly seed: number;
  readonly until: Date;
};

const program = createCommand('seed')
  .option('--organizations <number>', 'how many', wholeNumberOption(1, 10_000), 2)
  .option('--customers <number>', 'of each', wholeNumberOption(1, 10_000_000), 20_000)
  .option('--purchases <number>', 'of each', wholeNumberOption(0, 100_000_000), 200_000)
  .option(
    '--seed <number>',
    'the same number makes the same data',
    wholeNumberOption(0, 2 ** 31 - 1),
    42,
  )
  .option('--until <date>', 'the day the data ends, such as 2026-01-31', readDay, new Date())
  .action(async (options: Options) => {
    const databaseUrl = await commandDatabase({ isPrimary: true, isToMigrate: true });
    await migrate(databaseUrl);
    const database = createPool(databaseUrl, { max: 1, applicationName: 'crm-data-service seed' });
    try {
      // An interrupted seeding has named the organizations that are complete.
      const onSeeded = async ({ organizationId, name }: SeededOrganization) => {
        const key = { organizationId, name: 'Demo', scopes: ['read'] as const, expiresAt: null };
        const { secret } = await createApiKey(database, key);
        console.log(`${encodeId('organization', organizationId)}  ${secret}  ${name}`);
      };
      await seedWithProgress(databaseUrl, { ...options, onSeeded });
    } finally {
      await database.end();
    }
  });

await runProgram(program);

function readDay(text: string): Date {
  const day = new Date(`${text}T00:00:00Z`);
  if (/^\d{4}-\d{2}-\d{2}$/.test(text) && day.toJSON()?.startsWith(text)) return day;
  throw new InvalidArgumentError('It must be a day such as 2026-01-31.');
}
