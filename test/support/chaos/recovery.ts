import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeId } from '../../../src/domain/public-id.ts';
import { listOrganizations } from '../../../src/postgres/organizations.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import { isOfDatabase, readDatabaseIdentity } from '../../../src/postgres/source-identity.ts';
import {
  purchasesDirectory,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import { dataFolderId } from '../../../sync/files/data-folder.ts';
import { readStatus, type Status } from '../../../sync/status/status.ts';

/**
 * Resolves when all commits are published, `status` reports no problem, and the data folder has no
 * temporary files.
 */
export async function waitForRecovery(
  database: Database,
  dataDirectory: string,
  signal: AbortSignal,
): Promise<void> {
  let reasons: string[] = [];
  while (!signal.aborted) {
    reasons = [
      ...(await statusProblems(database, dataDirectory)),
      ...(await unexpectedFiles(database, dataDirectory)),
    ];
    if (reasons.length === 0) return;
    await sleep(200, undefined, { signal }).catch(() => {});
  }
  throw new Error(`the workers do not recover: ${reasons.join('; ')}`);
}

export function problemsIn(status: Status): string[] {
  const problems = status.organizations.flatMap(
    ({ organization, state, failure, pendingChanges }) => {
      if (failure !== null) return [`${organization} failed: ${failure.message}`];
      if (state !== 'live') return [`${organization} is ${state}`];
      return pendingChanges === 0 ? [] : [`${organization} has ${pendingChanges} pending changes`];
    },
  );
  return status.workers.length === 1 ? problems : [...problems, `${status.workers.length} workers`];
}

async function statusProblems(database: Database, dataDirectory: string): Promise<string[]> {
  if (!existsSync(purchasesDirectory(dataDirectory))) return ['no data folder'];
  const folderId = await dataFolderId(dataDirectory);
  const organizations = await listOrganizations(database);
  return problemsIn(await readStatus(database, dataDirectory, folderId, organizations));
}

/** Temporary files, and files of deleted organizations. */
async function unexpectedFiles(database: Database, dataDirectory: string): Promise<string[]> {
  const directory = purchasesDirectory(dataDirectory);
  const present = (await listOrganizations(database)).map(({ id }) => encodeId('organization', id));
  const found: string[] = [];
  for (const name of await readdir(directory)) {
    if (!name.startsWith('org_')) {
      if (/\.tmp$|FOLDER\./.test(name)) found.push(name);
      continue;
    }
    if (!present.includes(name)) {
      // The worker keeps the files of another database: DATABASE_URL may be wrong.
      if (!(await isOfAnotherDatabase(database, join(directory, name))))
        found.push(`${name} of no organization`);
      continue;
    }
    const files = await readdir(join(directory, name)).catch(() => []);
    const unexpected = files.filter(
      (file) =>
        !/^(live\.duckdb(\.wal)?|OWNER|CURRENT|STATUS|VERIFIED|base-[0-9a-f]+\.duckdb|\d+-[0-9a-f]+-[0-9a-f]+\.duckdb)$/.test(
          file,
        ),
    );
    found.push(...unexpected.map((file) => `${name}/${file}`));
    const generations = files.filter((file) => /^\d+-[0-9a-f]+-[0-9a-f]+\.duckdb$/.test(file));
    if (generations.length > 3) found.push(`${generations.length} generations of ${name}`);
  }
  const requests = await readdir(join(directory, 'requests')).catch(() => []);
  found.push(...requests.filter((name) => !name.endsWith('.response.json')));
  return found;
}

async function isOfAnotherDatabase(database: Database, directory: string): Promise<boolean> {
  const published = readPublished(directory);
  return (
    published !== null && !isOfDatabase(published.source, await readDatabaseIdentity(database))
  );
}
