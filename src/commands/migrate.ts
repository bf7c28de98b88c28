import { OperatorError } from '../operator-error.ts';
import { migrate } from '../postgres/migrate.ts';
import { requireDatabase } from '../postgres/pool.ts';
import { readSettings, requireDatabaseUrl } from '../settings.ts';
import { createProgram, runProgram } from './command-line.ts';

const program = createProgram('npm run migrate', "Brings the database's schema up to date.").action(
  async () => {
    const databaseUrl = requireDatabaseUrl(readSettings());
    await requireDatabase(databaseUrl);
    const { applied, isCaptureRestored, captureProblem } = await migrate(databaseUrl);
    if (applied.length > 0) console.log(`Applied ${applied.join(', ')}.`);
    if (isCaptureRestored) console.log('Created the triggers that capture changes of purchases.');
    if (applied.length === 0 && !isCaptureRestored) console.log('Already up to date.');
    if (captureProblem !== null) {
      throw new OperatorError(`${captureProblem.message} ${captureProblem.advice}`);
    }
  },
);

await runProgram(program);
