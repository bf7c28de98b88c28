import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { openPaths, pathsBelow } from '../support/open-paths.ts';
import { addPurchases } from '../support/shop.ts';

describe('the files of API and worker', () => {
  it('are readable by their user alone, also after a copy that left them open', {
    tags: ['slow'],
  }, async ({ database, directory, shop, customerId, program, execute }) => {
    await addPurchases(database.pool, shop.organizationId, customerId, 10);
    const data = join(directory, 'deep', 'data');
    const environment = { DATA_DIR: data };
    const folders = ['purchases', 'spill'].map((name) => join(data, name));
    const run = async () => {
      const api = program('src/commands/api.ts', [], environment);
      await api.printed(/Listening on http/);
      const worker = program('sync/main.ts', ['run'], environment);
      await worker.printed(/following changes/);
      return { worker, end: () => Promise.all([api.end('SIGINT'), worker.end('SIGINT')]) };
    };

    const first = await run();
    await first.worker.printed(/"msg":"built"/);
    for (const command of ['rebuild', 'verify']) {
      expect((await execute('sync', [command], environment)).code).toBe(0);
    }
    expect(folders.flatMap(openPaths)).toEqual([]);
    await first.end();

    for (const path of folders.flatMap(pathsBelow)) {
      chmodSync(path, statSync(path).isDirectory() ? 0o755 : 0o644);
    }
    const second = await run();
    while (folders.some((folder) => (statSync(folder).mode & 0o077) !== 0)) await sleep(50);
    await second.end();
  });
});
