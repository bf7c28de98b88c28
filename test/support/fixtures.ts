import { setTimeout as sleep } from 'node:timers/promises';
import { test as base } from 'vitest';
import type { CommandName } from '../../src/commands/commands.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import type { AppOptions } from '../../src/http/app.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { createTestApi, type TestApi } from './api.ts';
import { createTestDuckDBEngine } from './engines.ts';
import { createTestDatabase, type TestDatabase } from './postgres.ts';
import { createPostgresProxy, type PostgresProxy } from './postgres-proxy.ts';
import { commandLine, type Program, type ProgramOptions, runProgram } from './program.ts';
import { expectEqual } from './published.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from './shop.ts';
import { listenAndConnect, type SocketClient } from './sockets.ts';
import { createTestWorker, follow, type TestWorker, type TestWorkerOptions } from './sync.ts';
import { temporaryDirectory } from './temporary-directory.ts';

// Vitest sets up a fixture when the first test or hook names it as a parameter, and tears it down
// after the fixtures that depend on it. Vitest does not set up other fixtures.

/** An organization with an API key that has the scope read. */
export type Shop = { readonly organizationId: bigint; readonly secret: string };

type Stores = { readonly database: TestDatabase; readonly directory: string };
type Scope = { onCleanup(end: () => Promise<void>): void };

/** A migrated, empty database. */
// biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
async function openDatabase({}: object, { onCleanup }: Scope): Promise<TestDatabase> {
  const database = await createTestDatabase();
  onCleanup(database.drop);
  return database;
}

/** An empty folder: the data folder of `api`, `worker`, `engine` and `program`. */
// biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
async function openDirectory({}: object, { onCleanup }: Scope): Promise<string> {
  const directory = await temporaryDirectory();
  onCleanup(directory.remove);
  return directory.path;
}

/** An organization that has only a key. */
async function openShop({ database }: Pick<Stores, 'database'>): Promise<Shop> {
  const organizationId = await addOrganization(database.pool, 'Livraria Ipê');
  return { organizationId, secret: (await addKey(database.pool, organizationId)).secret };
}

/** A customer of `shop`. */
const openCustomer = ({ database, shop }: { database: TestDatabase; shop: Shop }) =>
  addCustomer(database.pool, shop.organizationId);

/** The API over `database` and `directory`, with `apiOptions`. */
async function openApi(
  { database, directory, apiOptions }: Stores & { readonly apiOptions: Partial<AppOptions> },
  { onCleanup }: Scope,
): Promise<TestApi> {
  const api = await createTestApi(database.pool, directory, apiOptions);
  onCleanup(api.close);
  return api;
}

/** A client of `api` over real sockets. */
async function openClient(
  { api }: { readonly api: TestApi },
  { onCleanup }: Scope,
): Promise<SocketClient> {
  const client = await listenAndConnect(api.app);
  onCleanup(async () => client.close());
  return client;
}

type StartApi = (options?: Partial<AppOptions>) => Promise<TestApi>;

/** Starts more APIs over `database` and `directory`. They are closed after the test. */
async function openStartApi(
  { database, directory }: Stores,
  { onCleanup }: Scope,
): Promise<StartApi> {
  const apis: TestApi[] = [];
  onCleanup(async () => {
    for (const api of apis) await api.close();
  });
  return async (options = {}) => {
    const api = await createTestApi(database.pool, directory, options);
    apis.push(api);
    return api;
  };
}

/** Like `startApi`, with a client over real sockets. */
async function openStartServer(
  { startApi }: { readonly startApi: StartApi },
  { onCleanup }: Scope,
) {
  const clients: SocketClient[] = [];
  onCleanup(async () => {
    for (const client of clients) client.close();
  });
  return async (options: Partial<AppOptions> = {}) => {
    const { app } = await startApi(options);
    const client = await listenAndConnect(app);
    clients.push(client);
    return { server: app.server, client };
  };
}

type Get = (url: string, headers?: Record<string, string>) => ReturnType<TestApi['get']>;

/** GET with the key of `shop`. */
const openGet =
  async ({ api, shop }: { api: TestApi; shop: Shop }): Promise<Get> =>
  (url, headers) =>
    api.get(url, shop.secret, headers);

/** A sync worker in this process. It does not follow changes before `followChanges`. */
async function openWorker(
  { database, directory }: Stores,
  { onCleanup }: Scope,
): Promise<TestWorker> {
  const worker = await createTestWorker(database.pool, directory);
  onCleanup(worker.close);
  return worker;
}

/** Makes `worker` follow changes until the end of the test. */
function openFollowChanges(
  { worker }: { readonly worker: TestWorker },
  { onCleanup }: Scope,
): () => void {
  return () => onCleanup(follow(worker));
}

/** Opens more workers over `database` and `directory`. They are closed after the test. */
async function openOpenWorker({ database, directory }: Stores, { onCleanup }: Scope) {
  const workers: TestWorker[] = [];
  onCleanup(async () => {
    for (const worker of workers) await worker.close();
  });
  return async ({ dataDirectory = directory, ...options }: TestWorkerOptions = {}) => {
    const worker = await createTestWorker(database.pool, dataDirectory, options);
    workers.push(worker);
    return worker;
  };
}

/** A proxy of Postgres, in front of `database`. */
async function openProxy(
  { database }: Pick<Stores, 'database'>,
  { onCleanup }: Scope,
): Promise<PostgresProxy> {
  const proxy = await createPostgresProxy(database.url);
  onCleanup(proxy.close);
  return proxy;
}

type Published = Stores & { readonly organizationId: bigint };

/** Compares the published purchases of the organization with those of Postgres. */
const openExpectEqual =
  async ({ database, directory, organizationId }: Published) =>
  (dataDirectory = directory) =>
    expectEqual(database.pool, dataDirectory, organizationId);

/** Waits until so many purchases of the organization, or in another data folder, are published. */
async function openUntilPublished(
  { directory, organizationId }: Omit<Published, 'database'>,
  { onCleanup }: Scope,
) {
  const engines = new Map<string, PurchaseEngine>();
  onCleanup(async () => {
    for (const engine of engines.values()) await engine.close();
  });
  return async (purchases: number, id = organizationId, folder = directory) => {
    const engine = engines.get(folder) ?? (await createTestDuckDBEngine(folder));
    engines.set(folder, engine);
    const count = () =>
      readPurchaseStats(engine, id, { filters: {}, groupLimit: 1 }).then(
        ({ result }) => Number(result.purchaseCount),
        () => null,
      );
    while ((await count()) !== purchases) await sleep(20);
  };
}

/** Adds so many purchases of one customer to the organization. */
async function openAdd({ database, organizationId }: Omit<Published, 'directory'>) {
  const customer = await addCustomer(database.pool, organizationId);
  return (count = 1) => addPurchases(database.pool, organizationId, customer, count);
}

/** The folder of the organization's files. */
const openFolder = ({ directory, organizationId }: Omit<Published, 'database'>) =>
  organizationDirectory(directory, organizationId);

/** The DuckDB engine over the generations that are published in `directory`. */
async function openEngine(
  { directory }: Pick<Stores, 'directory'>,
  { onCleanup }: Scope,
): Promise<PurchaseEngine> {
  const engine = await createTestDuckDBEngine(directory);
  onCleanup(engine.close);
  return engine;
}

type StartProgram = (
  path: string,
  args?: readonly string[],
  environment?: Record<string, string>,
  options?: ProgramOptions,
) => Program;

/** Runs programs over `database` and `directory`. Programs that still run after the test are killed. */
async function openProgram(
  { database, directory }: Stores,
  { onCleanup }: Scope,
): Promise<StartProgram> {
  const programs: Program[] = [];
  onCleanup(async () => {
    await Promise.all(programs.map((program) => program.end('SIGKILL')));
  });
  return (path, args = [], environment = {}, options = {}) => {
    const stores = { DATABASE_URL: database.url, DATA_DIR: directory, PORT: '0' };
    const program = runProgram(path, args, { ...stores, ...environment }, options);
    programs.push(program);
    return program;
  };
}

/** Runs a command to its end. */
const openExecute =
  async ({ program }: { readonly program: StartProgram }) =>
  async (
    command: CommandName,
    args: readonly string[],
    environment: Record<string, string> = {},
  ) => {
    const running = program(commandLine, [command, ...args], environment);
    const code = await running.exited();
    return { code, output: running.output(), lines: running.output().trim().split('\n') };
  };

/** Tests with fixtures. Those with `sharing` are shared by the tests of a file, or new for each test. */
const testWith = (sharing: { readonly scope: 'file' }) =>
  base
    .extend('database', sharing, openDatabase)
    .extend('directory', sharing, openDirectory)
    .extend('shop', sharing, openShop)
    .extend('otherShop', sharing, openShop)
    .extend('customerId', sharing, openCustomer)
    .extend('apiOptions', sharing, {} as Partial<AppOptions>)
    .extend('api', sharing, openApi)
    .extend('get', sharing, openGet)
    .extend('client', sharing, openClient)
    .extend('worker', sharing, openWorker)
    .extend('engine', sharing, openEngine)
    .extend('newDirectory', openDirectory)
    .extend('newShop', openShop)
    .extend('newCustomerId', ({ database, newShop }) => openCustomer({ database, shop: newShop }))
    .extend('followChanges', openFollowChanges)
    .extend('openWorker', openOpenWorker)
    .extend('organizationId', ({ newShop }) => newShop.organizationId)
    .extend('folder', openFolder)
    .extend('add', openAdd)
    .extend('expectEqual', openExpectEqual)
    .extend('untilPublished', openUntilPublished)
    .extend('proxy', openProxy)
    .extend('program', openProgram)
    .extend('execute', openExecute)
    .extend('startApi', openStartApi)
    .extend('startServer', openStartServer);

export const test = testWith({ scope: 'file' });

/** Each test has its own database and folder. `organizationId` is that of `shop`. */
export const isolatedTest = testWith({ scope: 'test' } as never).extend(
  'organizationId',
  ({ shop }) => shop.organizationId,
);
