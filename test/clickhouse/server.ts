import { once } from 'node:events';
// biome-ignore lint/style/noRestrictedImports: a server, and no client of the API.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type ChdbResult, loadChdb } from './chdb.ts';

const { Session } = loadChdb();

/**
 * ClickHouse's HTTP interface in front of the engine of the package `chdb`: databases, bound
 * parameters, settings, inserts, and errors as ClickHouse sends them. One statement runs at a time.
 */
const session = new Session(process.argv[2]);
// Compiling expressions and starting threads took a fifth of the processor time of reports of few rows.
await session.queryAsync(`set max_threads = 1, max_insert_threads = 1, compile_expressions = 0,
  compile_aggregate_expressions = 0, compile_sort_description = 0`);

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

/** Runs a statement of a request after all earlier ones. */
function execute({ searchParams }: URL, statement: string): Promise<ChdbResult> {
  const wanted = searchParams.get('database') ?? 'default';
  const parameters = Object.fromEntries(
    [...searchParams]
      .filter(([name]) => name.startsWith('param_'))
      .map(([name, value]) => [name.slice('param_'.length), decode(value)]),
  );
  const settings = new Map(
    [...searchParams].filter(([name]) => !name.startsWith('param_') && !notSettings.includes(name)),
  );
  const result = previous.then(async () => {
    if (wanted !== database) await session.queryAsync(`use ${wanted}`);
    database = wanted;
    await applySettings(settings);
    return session.queryBindAsync(statement, parameters, { format: 'TabSeparated' });
  });
  previous = result.catch(() => {});
  return result;
}

/** ClickHouse inserts blocks of rows as they arrive, so those of a failed insert may stay. */
const blockBytes = 16 * 2 ** 20;

/** Complete lines of a request, in blocks. What follows the last line break counts if the body is complete. */
async function* blocksOf(request: IncomingMessage): AsyncGenerator<string> {
  let received: Buffer[] = [];
  let bytes = 0;
  const takeLines = (): string => {
    const all = Buffer.concat(received);
    const end = all.lastIndexOf('\n') + 1;
    received = [all.subarray(end)];
    bytes = all.length - end;
    return all.subarray(0, end).toString();
  };
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      received.push(chunk as Buffer);
      bytes += (chunk as Buffer).length;
      if (bytes >= blockBytes) yield takeLines();
    }
  } catch {
    yield takeLines();
    return;
  }
  yield Buffer.concat(received).toString();
}

/** The result of a request's last statement; null for an insert without rows, which is no error over HTTP. */
async function run(url: URL, request: IncomingMessage): Promise<ChdbResult | null> {
  const inUrl = url.searchParams.get('query');
  if (inUrl === null || !/^insert\s/i.test(inUrl)) {
    return execute(url, `${inUrl ?? ''}\n${await text(request)}`);
  }
  let result: ChdbResult | null = null;
  for await (const rows of blocksOf(request)) {
    if (rows !== '') result = await execute(url, `${inUrl}\n${rows}`);
  }
  return result;
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://localhost');
  response.setHeader('X-ClickHouse-Query-Id', url.searchParams.get('query_id') ?? '');
  try {
    response.end((await run(url, request))?.bytes());
  } catch (error) {
    const { message } = error as Error;
    response.statusCode = 500;
    response.setHeader('X-ClickHouse-Exception-Code', /Code: (\d+)/.exec(message)?.[1] ?? '0');
    response.end(message);
    request.resume();
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

/** Other parameters of a request are settings. A session cannot leave the mode `readonly`. */
const notSettings = ['query', 'query_id', 'database', 'session_id', 'role', 'readonly'];

const server = createServer({ maxHeaderSize: 2 ** 20 }, respond);
server.listen(0, '127.0.0.1');
await once(server, 'listening');
console.log(`Listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
process.on('disconnect', () => process.exit());
