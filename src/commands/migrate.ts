import { migrate } from '../postgres/schema/migrate.ts';
import { OperatorError } from '../process/operator-error.ts';
import { createProgram, runProgram } from './command-line.ts';
import { commandDatabase } from './database.ts';

const noticeAfterMs = 10_000;
const stillMigrating =
  'Still migrating. Large tables take minutes. If pg_stat_activity shows that `crm-data-service migrate` ' +
  'waits for a lock, end the transaction that holds the lock.';

const program = createProgram('npm run migrate', "Brings the database's schema up to date.").action(
  async () => {
    const databaseUrl = await commandDatabase({ isPrimary: true, isToMigrate: true });
    const notice = setTimeout(() => console.error(stillMigrating), noticeAfterMs);
    const { applied, restored, isCaptureRestored, captureProblem } = await migrate(
      databaseUrl,
    ).finally(() => clearTimeout(notice));
    if (applied.length > 0) console.log(`Applied ${applied.join(', ')}.`);
    if (isCaptureRestored) console.log('Created the triggers that capture changes of purchases.');
    if (restored.length > 0) console.log(`Restored ${restored.join(', ')}.`);
    if (applied.length + restored.length === 0 && !isCaptureRestored && captureProblem === null) {
      console.log('Already up to date.');
    }
    if (captureProblem !== null) {
      throw new OperatorError(`${captureProblem.message} ${captureProblem.advice}`);
    }
  },
);

await runProgram(program);
