import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Session } from 'chdb';

/**
 * ClickHouse's HTTP interface in front of the engine of the package `chdb`: queries with bound
 * parameters, inserts, and errors as ClickHouse sends them.
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
const unescape = (text: string): string =>
  text.replace(/\\([\s\S])/g, (_, character: string) => escapes[character] ?? character);

async function run(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks).toString();
  const inUrl = searchParams.get('query');
  const statement = inUrl === null ? body : `${inUrl}\n${body}`;
  const parameters: Record<string, string> = {};
  const settings: string[] = [];
  for (const [name, value] of searchParams) {
    if (name.startsWith('param_')) parameters[name.slice('param_'.length)] = unescape(value);
    else if (name.startsWith('output_format_')) settings.push(`${name} = ${Number(value)}`);
  }
  response.setHeader('X-ClickHouse-Query-Id', searchParams.get('query_id') ?? '');
  try {
    if (settings.length > 0) await session.queryAsync(`set ${settings.join(', ')}`);
    const result = await session.queryBindAsync(statement, parameters, { format: 'TabSeparated' });
    response.end(result.bytes());
  } catch (error) {
    const { message } = error as Error;
    response.statusCode = 500;
    response.setHeader('X-ClickHouse-Exception-Code', /Code: (\d+)/.exec(message)?.[1] ?? '0');
    response.end(message);
  }
}

const server = createServer((request, response) => void run(request, response));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.send?.((server.address() as AddressInfo).port);
process.on('disconnect', () => process.exit());
