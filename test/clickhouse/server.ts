import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: a server, and no client of the API.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';

/** The used part of `chdb`. Types are checked without the package. */
type Chdb = {
  readonly Session: new (
    directory: string | undefined,
  ) => {
    queryAsync(statement: string): Promise<unknown>;
    queryBindAsync(
      statement: string,
      values: Readonly<Record<string, string>>,
      options: { readonly format: string },
    ): Promise<{ bytes(): Uint8Array }>;
  };
};
const { Session } = loadChdb();

function loadChdb(): Chdb {
  try {
    return createRequire(import.meta.url)('chdb') as Chdb;
  } catch (error) {
    console.error(
      `${(error as Error).message}\nnpm ci --prefix test/clickhouse installs ClickHouse.`,
    );
    process.exit(1);
  }
}

/**
 * ClickHouse's HTTP interface in front of the engine of the package `chdb`: databases, bound
 * parameters, settings, inserts, and errors as ClickHouse sends them. One statement runs at a time.
 */
const session = new Session(process.argv[2]);

/** Values of parameters are escaped as in the format TabSeparated. */
const escapes: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  0: '\0',
};
const decode = (text: string): string =>
  text.replace(/\\([\s\S])/g, (_, character: string) => escapes[character] ?? character);

let database = 'default';
let previous: Promise<unknown> = Promise.resolve();

/**
 * The body of a request. Of one that ends early, the complete lines: ClickHouse inserts blocks of
 * rows as they arrive, so they may stay.
 */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString();
  } catch {
    const received = Buffer.concat(chunks);
    return received.subarray(0, received.lastIndexOf('\n') + 1).toString();
  }
}

async function respond(url: URL, body: string, response: ServerResponse): Promise<void> {
  const { searchParams } = url;
  const inUrl = searchParams.get('query');
  // Over HTTP, an insert without rows is no error.
  if (inUrl !== null && body === '' && /^insert\s/i.test(inUrl)) {
    response.end();
    return;
  }
  const statement = inUrl === null ? body : `${inUrl}\n${body}`;
  const wanted = searchParams.get('database') ?? 'default';
  const parameters = Object.fromEntries(
    [...searchParams]
      .filter(([name]) => name.startsWith('param_'))
      .map(([name, value]) => [name.slice('param_'.length), decode(value)]),
  );
  const settings = new Map(
    [...searchParams].filter(([name]) => !name.startsWith('param_') && !notSettings.includes(name)),
  );
  response.setHeader('X-ClickHouse-Query-Id', searchParams.get('query_id') ?? '');
  try {
    if (wanted !== database) await session.queryAsync(`use ${wanted}`);
    database = wanted;
    await applySettings(settings);
    const result = await session.queryBindAsync(statement, parameters, { format: 'TabSeparated' });
    response.end(result.bytes());
  } catch (error) {
    const { message } = error as Error;
    response.statusCode = 500;
    response.setHeader('X-ClickHouse-Exception-Code', /Code: (\d+)/.exec(message)?.[1] ?? '0');
    response.end(message);
  }
}

/** The settings of the session. */
const applied = new Map<string, string>();

/** Changes what differs: most requests have the settings of the request before. */
async function applySettings(settings: ReadonlyMap<string, string>): Promise<void> {
  const quote = (text: string) => `'${text.replaceAll(/['\\]/g, '\\$&')}'`;
  const changed = [...settings].filter(([name, value]) => applied.get(name) !== value);
  const removed = [...applied.keys()].filter((name) => !settings.has(name));
  for (const name of removed) applied.delete(name);
  for (const [name, value] of changed) applied.set(name, value);
  const assignments = [
    ...changed.map(([name, value]) => `${name} = ${quote(value)}`),
    ...removed.map((name) => `${name} = default`),
  ];
  if (assignments.length > 0) await session.queryAsync(`set ${assignments.join(', ')}`);
}

/** Other parameters of a request are settings. */
const notSettings = ['query', 'query_id', 'database', 'session_id', 'role'];

const server = createServer({ maxHeaderSize: 2 ** 20 }, async (request, response) => {
  const body = await bodyOf(request);
  const url = new URL(request.url ?? '/', 'http://localhost');
  previous = previous.then(() => respond(url, body, response));
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
console.log(`Listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
process.on('disconnect', () => process.exit());
