import { fork } from 'node:child_process';
import { once } from 'node:events';
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
  });
  const exited = once(child, 'exit');
  const failed = exited.then(async () => {
    await directory.remove();
    throw new Error('ClickHouse ended: `npm run test:clickhouse` installs it');
  });
  failed.catch(() => {});
  const [port] = await Promise.race([once(child, 'message'), failed]);
  return {
    url: `http://127.0.0.1:${port}`,
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
