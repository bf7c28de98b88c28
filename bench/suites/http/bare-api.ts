import Fastify from 'fastify';
import { createProgram, runProgram } from '../../../src/commands/command-line.ts';
import { createKeyCheck } from '../../../src/http/auth/authentication.ts';
import { createPool } from '../../../src/postgres/connection/pool.ts';
import { untilAborted, untilStopped } from '../../../src/process/stop-signals.ts';
import { readSettings, requireDatabaseUrl } from '../../../src/settings/settings.ts';

/** The minimum of an API with keys: it checks the key in Postgres like the API, and responds. */
const program = createProgram('bare-api', 'Checks a key and responds.').action(async () => {
  const settings = readSettings();
  const stopped = untilStopped();
  const database = createPool(requireDatabaseUrl(settings), {
    max: settings.databasePoolSize,
    applicationName: 'bench bare API',
    statementTimeoutMs: settings.queryTimeoutMs,
  });
  const checkKey = createKeyCheck(database, settings);
  const app = Fastify();
  app.get('/plain', async () => ({ status: 'ok' }));
  app.get('/', async (request, reply) => {
    const checked = await checkKey(request);
    return checked === null ? reply.code(401).send() : { object: 'nothing' };
  });
  console.log(`Listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
  await untilAborted(stopped);
  await app.close();
  await database.end();
});

await runProgram(program);
