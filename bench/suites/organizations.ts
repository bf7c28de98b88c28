import { statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { coresOf, readUsage } from '../measure/process-usage.ts';
import { decimal, mebibytes } from '../report/tables.ts';
import { type Scope, withScope } from '../runner/scope.ts';
import { defineSuite } from '../runner/suite.ts';
import { createDatabase, scratchDirectory } from '../setup/postgres.ts';
import {
  type ProgramEnvironment,
  startHttpServer,
  startProgram,
  startService,
} from '../setup/programs.ts';
import { seedShops } from '../setup/shops.ts';

const pollIntervalMs = 20;

export const organizations = defineSuite({
  name: 'organizations',
  description: 'many organizations: their first load, their cost without changes, and a restart',
  isQuick: false,
  defaults: { organizations: 2_000, purchasesPerOrganization: 1_000, seconds: 20, seed: 42 },
  async run({ options, scope, server }) {
    const { organizations: count, purchasesPerOrganization: purchases, seconds, seed } = options;
    const database = await createDatabase({ scope, server });
    const shops = await seedShops(scope, database, { organizations: count, purchases, seed });
    const dataDirectory = await scratchDirectory(scope);
    const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
    const startedAt = performance.now();
    await startProgram(scope, 'sync/main.ts', ['once'], environment).done();
    const loadSeconds = (performance.now() - startedAt) / 1000;
    const directories = shops.map(({ organizationId }) =>
      organizationDirectory(dataDirectory, organizationId),
    );
    const bytes = await Promise.all(directories.map(sizeOf));
    // Seeding logged every purchase.
    await database.pool.query('vacuum purchase_changes');
    const idle = await withScope(scope.signal, (inner) => measureIdle(inner, environment, seconds));
    const restartSeconds = await measureRestart(scope, environment, dataDirectory);
    const figures = {
      loadSeconds,
      bytesPerOrganization: bytes.reduce((sum, each) => sum + each, 0) / count,
      ...idle,
      restartSeconds,
    };
    return {
      text: [
        {
          head: [`${count.toLocaleString('en')} organizations`, 'measured'],
          rows: [
            ['first load', `${decimal(loadSeconds)} s`],
            ['disk for each', mebibytes(figures.bytesPerOrganization)],
            ['worker without changes', `${decimal(100 * idle.workerCores)} % of a core`],
            ['API without queries', `${decimal(100 * idle.apiCores)} % of a core`],
            ['open files of both', `${idle.openFiles}`],
            ['resident memory of both', mebibytes(idle.residentBytes)],
            ['restart until all are current', `${decimal(restartSeconds, 2)} s`],
          ],
        },
      ],
      figures,
    };
  },
});

async function sizeOf(directory: string): Promise<number> {
  const names = await readdir(directory);
  // Blocks of the disk, which are more than the bytes of small files.
  return names.reduce((sum, name) => sum + 512 * statSync(join(directory, name)).blocks, 0);
}

/** The worker and the API, some seconds after they have started. */
async function measureIdle(scope: Scope, environment: ProgramEnvironment, seconds: number) {
  const worker = startService(scope, 'sync/main.ts', [], environment);
  const api = await startHttpServer(scope, 'src/commands/api.ts', environment);
  await sleep(10_000, undefined, { signal: scope.signal });
  const pids = [worker.pid, api.pid];
  const [workerCores, apiCores] = (await Promise.all(
    pids.map((pid) => coresOf(scope, pid, seconds)),
  )) as [number, number];
  const openFiles = await Promise.all(
    pids.map(async (pid) => (await readdir(`/proc/${pid}/fd`)).length),
  );
  return {
    workerCores,
    apiCores,
    openFiles: openFiles.reduce((sum, each) => sum + each, 0),
    residentBytes: pids.reduce((sum, pid) => sum + (readUsage(pid)?.residentBytes ?? 0), 0),
  };
}

/** From the start of a worker to a tick that includes all organizations, with the present instant. */
async function measureRestart(
  scope: Scope,
  environment: ProgramEnvironment,
  dataDirectory: string,
): Promise<number> {
  const before = readTicks(dataDirectory)[0]?.asOf ?? 0n;
  const startedAt = performance.now();
  startService(scope, 'sync/main.ts', [], environment);
  for (;;) {
    const tick = readTicks(dataDirectory)[0];
    const isCurrent = tick !== undefined && tick.asOf > before;
    if (isCurrent && Object.keys(tick.exceptions).length === 0) break;
    await sleep(pollIntervalMs, undefined, { signal: scope.signal });
  }
  return (performance.now() - startedAt) / 1000;
}
