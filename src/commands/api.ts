import { createLog } from '../log.ts';
import { requireDatabase } from '../postgres/pool.ts';
import { startServer } from '../server.ts';
import { readSettings, requireDatabaseUrl } from '../settings.ts';
import { untilAborted, untilStopped } from '../stop-signals.ts';
import { createProgram, runProgram } from './command-line.ts';

const program = createProgram('npm run api', 'Serves the HTTP API.').action(async () => {
  const settings = readSettings();
  const databaseUrl = requireDatabaseUrl(settings);
  const stopped = untilStopped();
  await requireDatabase(databaseUrl);
  const server = await startServer(settings, databaseUrl, createLog('api', settings.logLevel));
  console.log(`Listening on ${server.url}`);
  await untilAborted(stopped);
  await server.close();
});

await runProgram(program);
