import { chownSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, vi } from 'vitest';
import { superviseWorker } from '../../src/commands/worker-supervisor.ts';
import { readSettings, requireDatabaseUrl } from '../../src/settings/settings.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { requestFromWorker } from '../../sync/worker/rebuild-requests.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { createRecordedLog } from '../support/logged-lines.ts';

describe('the data folder', { tags: ['slow'] }, () => {
  it.skipIf(process.getuid?.() !== 0)(
    'is refused to API, worker and commands of another user',
    async ({ directory, execute, program }) => {
      const folder = join(directory, 'purchases');
      mkdirSync(folder);
      chownSync(folder, 12_345, 12_345);
      const sentence =
        `${folder} belongs to the user with the id 12345, and this process runs as the user 0: ` +
        'run the API, the worker and all commands as one user, who owns the folder.';
      const api = program('src/commands/api.ts');
      expect(await api.exited()).toBe(1);
      expect(api.output()).toContain(sentence);
      for (const command of ['run', 'rebuild']) {
        expect(await execute('sync', [command])).toMatchObject({
          code: 1,
          output: expect.stringContaining(sentence),
        });
      }
    },
  );

  it('ends its worker with a sentence if it is deleted', async ({ directory, program, shop }) => {
    expect(shop.organizationId).toBeGreaterThan(0n);
    const worker = program('sync/main.ts', ['run']);
    await worker.printed(/"msg":"built"/);
    rmSync(join(directory, 'purchases'), { recursive: true, maxRetries: 5 });
    expect(await worker.exited()).toBe(1);
    expect(worker.output()).toContain(
      `DATA_DIR ${directory} was deleted or replaced while the worker ran.`,
    );
  });
});

const writeEmptyFile = (path: string) => writeFileSync(path, '');
const linkToItself = (path: string) => symlinkSync(path, path);
const makeFolder = (path: string) => mkdirSync(path);

describe('an error of the data folder', () => {
  const obstacle = 'Something else is at this path';
  it.for([
    ['DATA_DIR is a file', '', writeEmptyFile, 'Cannot write to DATA_DIR'],
    ['its folder is a file', 'purchases', writeEmptyFile, 'Cannot write to DATA_DIR'],
    ['DATA_DIR is a link to itself', '', linkToItself, 'Cannot read'],
    ['its file is a folder', 'purchases/FOLDER', makeFolder, 'Cannot read'],
  ] as const)('says what to do: %s', async ([_what, name, make, message], { directory }) => {
    const dataDirectory = join(directory, 'data');
    const path = join(dataDirectory, name);
    mkdirSync(dirname(path), { recursive: true });
    make(path);
    const failure = await dataFolderId(dataDirectory).catch(String);
    expect(failure).toMatch(new RegExp(`^OperatorError: ${message} ${dataDirectory}.*${obstacle}`));
  });

  it('says what to do if a request for the worker cannot be written', async ({ directory }) => {
    mkdirSync(join(directory, 'purchases'));
    writeEmptyFile(join(directory, 'purchases/requests'));
    const request = { organizationId: 1n, differsFromPostgres: false };
    const { signal } = new AbortController();
    await expect(requestFromWorker(directory, request, async () => true, signal)).rejects.toThrow(
      /^Cannot write a request for the worker to .*requests: EEXIST.* Something else is at this path/,
    );
  });

  it('says what to do if a file of npm start is a folder', async ({ directory }) => {
    mkdirSync(join(directory, 'postgres.url'));
    const read = () => requireDatabaseUrl(readSettings({ DATA_DIR: directory }));
    expect(read).toThrow(/^Cannot read .*postgres\.url: EISDIR.* Something else is at this path/);
  });
});

describe('the API', { tags: ['slow'] }, () => {
  it('says at its start that it may open few files', async ({ program }) => {
    const api = program('src/commands/api.ts', [], {}, { maxOpenFiles: 400 });
    await api.printed(/The process may open only 400 files \(ulimit -n\).* Allow 4096 or more\./);
    expect(await api.end('SIGTERM')).toBe(0);
  });
});

describe('a worker that ends again and again under npm start', {
  tags: ['slow'],
}, () => {
  it('is started again after longer and longer pauses', async ({ directory, onTestFinished }) => {
    vi.stubEnv('DATA_DIR', directory);
    vi.stubEnv('DATABASE_WAIT_SECONDS', '0');
    onTestFinished(() => void vi.unstubAllEnvs());
    const pauses: number[] = [];
    const log = createRecordedLog((line) => {
      const { pauseMs } = JSON.parse(line);
      if (pauseMs !== undefined) pauses.push(pauseMs);
    });
    const worker = superviseWorker('postgres://nobody@127.0.0.1:1/none', log);
    onTestFinished(() => worker.stop());
    await vi.waitFor(() => expect(pauses).toHaveLength(3), { timeout: 50_000 });
    expect(pauses[0]).toBeLessThanOrEqual(1_000);
    expect(pauses[2]).toBeGreaterThanOrEqual(2_000);
  });
});
