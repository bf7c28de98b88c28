import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { administer, databaseUrl } from './postgres.ts';

/**
 * Builds the programs that tests start. All tests use one Postgres server: that of TEST_DATABASE_URL,
 * whose user must be a superuser, or the embedded Postgres. Test databases are clones of a migrated
 * template.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const removeTemporaryFiles = await useOwnTemporaryFolder();
  execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
  const given = process.env.TEST_DATABASE_URL;
  const server = given === undefined ? await startEmbedded() : { url: given, stop: async () => {} };
  const template = `test_template_${randomBytes(6).toString('hex')}`;
  await administer(server.url, `create database ${template}`);
  await migrate(databaseUrl(server.url, template));
  project.provide('postgresUrl', server.url);
  project.provide('templateDatabase', template);
  return async () => {
    await administer(server.url, `drop database ${template} with (force)`);
    await server.stop();
    await removeTemporaryFiles();
  };
}

/** The system's temporary folder of all tests and their programs, so that a killed one leaves nothing. */
async function useOwnTemporaryFolder(): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'crm-data-service-test-'));
  // The embedded Postgres of root runs as another user.
  await chmod(directory, 0o711);
  process.env.TMPDIR = directory;
  return () => rm(directory, { recursive: true, force: true, maxRetries: 5 });
}

async function startEmbedded() {
  const directory = await mkdtemp(join(tmpdir(), 'crm-data-service-test-'));
  const server = await startEmbeddedPostgres({
    directory,
    database: 'postgres',
    settings: {
      // Test databases need no durability.
      fsync: 'off',
      full_page_writes: 'off',
      max_connections: '300',
      max_prepared_transactions: '10',
    },
  }).catch(async (error) => {
    await rm(directory, { recursive: true, force: true });
    throw error;
  });
  return {
    url: server.url,
    stop: async () => {
      await server.stop();
      await rm(server.home, { recursive: true, force: true });
      await rm(directory, { recursive: true, force: true });
    },
  };
}
