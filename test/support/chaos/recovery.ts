import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import {
  isOfDatabase,
  readDatabaseIdentity,
} from '../../../src/postgres/connection/source-identity.ts';
import { listOrganizations } from '../../../src/postgres/organizations.ts';
import { savedDeltaOf } from '../../../src/purchase-store/delta/saved-delta.ts';
import { purchasesDirectory, readCurrent } from '../../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../../src/purchase-store/format/layout.ts';
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
    const current = readCurrent(join(directory, name), layoutVersion);
    const replaced = current?.replacedLogs.map(({ log }) => log) ?? [];
    const saved = current === null ? [] : [savedDeltaOf(current.log)];
    const expected = ['CURRENT', 'VERIFIED', current?.base, current?.log, ...saved, ...replaced];
    const files = await readdir(join(directory, name)).catch(() => []);
    const unexpected = files.filter((file) => !expected.includes(file));
    found.push(...unexpected.map((file) => `${name}/${file}`));
  }
  for (const folder of ['ticks', 'workers']) {
    const files = await readdir(join(directory, folder)).catch(() => []);
    const ticks = files.filter((file) => /^\d+-of-\d+\.json$/.test(file));
    const texts = await Promise.all(
      ticks.map((file) => readFile(join(directory, folder, file), 'utf8')),
    );
    const isNamed = (file: string) =>
      file.includes('.log-ends-') && texts.some((text) => text.includes(file));
    const unexpected = files.filter((file) => !ticks.includes(file) && !isNamed(file));
    found.push(...unexpected.map((file) => `${folder}/${file}`));
  }
  const requests = await readdir(join(directory, 'requests')).catch(() => []);
  found.push(...requests.filter((name) => !name.endsWith('.response.json')));
  return found;
}

async function isOfAnotherDatabase(database: Database, directory: string): Promise<boolean> {
  const current = readCurrent(directory, layoutVersion);
  return current !== null && !isOfDatabase(current.source, await readDatabaseIdentity(database));
}
