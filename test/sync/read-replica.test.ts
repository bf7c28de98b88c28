import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { createPool } from '../../src/postgres/pool.ts';
import { runProgram } from '../support/program.ts';
import { addOrganization } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('a read replica as the source', { timeout: 120_000 }, () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let server: Awaited<ReturnType<typeof startEmbeddedPostgres>>;

  const start = () =>
    startEmbeddedPostgres({ directory: join(directory.path, 'postgres'), database: 'crm' });
  beforeAll(async () => {
    directory = await temporaryDirectory();
    server = await start();
    await migrate(server.url);
    const database = createPool(server.url, { max: 1, applicationName: 'test' });
    await addOrganization(database);
    await database.end();
    await server.stop();
    // A server that waits for what a primary would send.
    writeFileSync(join(server.home, 'cluster', 'standby.signal'), '');
    server = await start();
  }, 120_000);
  afterAll(async () => {
    await server.stop();
    await rm(server.home, { recursive: true, force: true });
    await directory.remove();
  });

  it.each([['run'], ['once'], ['rebuild'], ['verify']])(
    'is refused in one line by `%s`',
    async (command) => {
      const program = runProgram('sync/main.ts', [command], {
        DATABASE_URL: server.url,
        DATA_DIR: join(directory.path, 'data'),
      });
      const code = await program.exited();
      expect(code, program.output()).toBe(1);
      expect(program.output()).toMatch(
        /^DATABASE_URL is a read replica\. The worker needs the primary/,
      );
    },
  );
});
