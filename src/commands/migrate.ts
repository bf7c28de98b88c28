import { migrate } from '../postgres/migrate.ts';
import { requireDatabase } from '../postgres/pool.ts';
import { readSettings, requireDatabaseUrl } from '../settings.ts';
import { createProgram, runProgram } from './command-line.ts';

const program = createProgram('npm run migrate', "Brings the database's schema up to date.").action(
  async () => {
    const databaseUrl = requireDatabaseUrl(readSettings());
    await requireDatabase(databaseUrl);
    const applied = await migrate(databaseUrl);
    console.log(applied.length === 0 ? 'Already up to date.' : `Applied ${applied.join(', ')}.`);
  },
);

await runProgram(program);
