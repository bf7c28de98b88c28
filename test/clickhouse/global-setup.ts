import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** All tests use one server: that of TEST_CLICKHOUSE_URL, or the embedded ClickHouse. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.TEST_CLICKHOUSE_URL;
  const server = given === undefined ? await startEmbedded() : { url: given, stop: async () => {} };
  project.provide('clickHouseUrl', server.url);
  return server.stop;
}

async function startEmbedded() {
  const directory = await temporaryDirectory();
  const child = fork(fileURLToPath(new URL('server.ts', import.meta.url)), [directory.path], {
    execArgv: ['--import', 'tsx'],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  const failed = exited.then(async () => {
    await directory.remove();
    throw new Error('ClickHouse ended');
  });
  failed.catch(() => {});
  const lines = createInterface(child.stdout as Readable);
  const [line] = await Promise.race([once(lines, 'line') as Promise<[string]>, failed]);
  return {
    url: line.replace('Listening on ', ''),
    stop: async () => {
      child.disconnect();
      await exited;
    },
  };
}

declare module 'vitest' {
  interface ProvidedContext {
    /** The server of `npm run test:clickhouse`. */
    clickHouseUrl: string;
  }
}
