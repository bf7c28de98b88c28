import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { purchasesDirectory } from '../src/engines/duckdb/published-generation.ts';
import { OperatorError } from '../src/operator-error.ts';

// A worker that was killed a moment ago may still be known to Postgres.
const lockPatienceMs = 5_000;

/** The folder's own name, made up once and kept in it. */
export async function dataFolderId(dataDirectory: string): Promise<string> {
  const directory = purchasesDirectory(dataDirectory);
  const file = join(directory, 'FOLDER');
  try {
    await mkdir(directory, { recursive: true });
    // Written whole or not at all: a link never replaces what is there.
    const draft = `${file}.${process.pid}`;
    await writeFile(draft, `${randomUUID()}\n`, { flush: true });
    await link(draft, file).finally(() => rm(draft));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'EEXIST') {
      throw new OperatorError(`Cannot write to DATA_DIR ${dataDirectory}: ${message}`);
    }
  }
  const id = (await readFile(file, 'utf8')).trim();
  if (/^[0-9a-f-]{36}$/.test(id)) return id;
  throw new OperatorError(`${file} should hold a UUID and does not: delete it and start again.`);
}

/**
 * Makes this process the folder's only worker for as long as the returned
 * connection lives. Rejects where another one is at work.
 */
export async function lockDataFolder(
  databaseUrl: string,
  folderId: string,
  dataDirectory: string,
): Promise<{ release(): Promise<void> }> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'crm-data-service sync lock',
    keepAlive: true,
  });
  client.on('error', () => {});
  await client.connect();
  const deadline = Date.now() + lockPatienceMs;
  for (;;) {
    const { rows } = await client.query<{ locked: boolean }>(
      'select pg_try_advisory_lock(hashtextextended($1, 0)) as locked',
      [`crm-data-service sync ${folderId}`],
    );
    if (rows[0]?.locked === true) return { release: () => client.end() };
    if (Date.now() > deadline) {
      await client.end();
      throw new OperatorError(
        `Another sync worker is at work on ${dataDirectory}; only one may be at a time.`,
      );
    }
    await sleep(100);
  }
}
