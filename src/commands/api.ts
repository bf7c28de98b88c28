import { requireDatabase } from '../postgres/connection/require-database.ts';
import { createLog } from '../process/log.ts';
import { boundShutdown, untilAborted, untilStopped } from '../process/stop-signals.ts';
import { closeTimeoutMs, databaseNeeds, startServer } from '../server.ts';
import { readSettings, requireDatabaseUrl } from '../settings/settings.ts';
import { createCommand, runAsService, runProgram } from './command-line.ts';
import { loggedWait } from './database.ts';

const program = createCommand('api').action(async () => {
  runAsService('api');
  const settings = readSettings();
  const databaseUrl = requireDatabaseUrl(settings);
  const stopped = untilStopped();
  const log = createLog('api', settings.logLevel);
  boundShutdown(stopped, settings.shutdownTimeoutMs + closeTimeoutMs, log);
  const wait = loggedWait(settings, log, stopped);
  const isUsable = await requireDatabase(databaseUrl, databaseNeeds(settings), wait);
  if (!isUsable) return;
  const server = await startServer(settings, databaseUrl, log);
  // At each LOG_LEVEL but silent, because scripts wait for the line.
  const level = settings.logLevel === 'silent' ? 'silent' : 'info';
  log.child({}, { level }).info(`Listening on ${server.url}`);
  await untilAborted(stopped);
  await server.close();
});

await runProgram(program);
