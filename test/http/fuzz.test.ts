import fc from 'fast-check';
import { afterAll, describe, expect } from 'vitest';
import { revokeApiKey } from '../../src/postgres/keys/api-keys.ts';
import { test as it } from '../support/fixtures.ts';
import { heldBytes } from '../support/held-bytes.ts';
import { addKey } from '../support/shop.ts';
import { listenAndConnect, type SocketClient, type SocketResponse } from '../support/sockets.ts';
import { describedOperations } from './endpoints.ts';
import { addFullShop, type FullShop } from './full-shop.ts';
import {
  type ClientRequest,
  type HostileRequest,
  hostileRequest,
  type KeyKind,
  keyPlaceholder,
} from './hostile-requests.ts';

// For more requests: FUZZ_REQUESTS=500000. To repeat a failure: the FUZZ_SEED and FUZZ_PATH that it prints.
const requestCount = Number(process.env.FUZZ_REQUESTS ?? 2_000);
const replayed = {
  ...(process.env.FUZZ_SEED === undefined ? {} : { seed: Number(process.env.FUZZ_SEED) }),
  ...(process.env.FUZZ_PATH === undefined ? {} : { path: process.env.FUZZ_PATH }),
};

/** Concurrent requests. */
const batchSize = 25;
const batchCount = Math.ceil(requestCount / batchSize);
/** The heap of a server without a leak varies by less, in bytes. */
const heapNoise = 12 * 2 ** 20;

const tables = [
  ...['organizations', 'api_keys', 'customers', 'segments', 'tags', 'attributes', 'flows'],
  ...['email_campaigns', 'template_campaigns', 'purchases'],
];
const allowedStatuses = [200, 304, 400, 401, 403, 404, 422, 429];
const maxHeadLength = 16_000;

const decodePercent = (text: string): string =>
  text.replace(/%([0-7][\da-f])/gi, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));

describe('a server under hostile requests', { tags: ['slow'] }, () => {
  let client: SocketClient;
  let own: FullShop;
  let other: FullShop;
  let secrets: Record<KeyKind, string | undefined>;

  it.beforeAll(async ({ database, worker, api }) => {
    // Ids that differ from the examples in the documentation.
    for (const table of tables) {
      await database.pool.query(`alter table ${table} alter column id restart with 1000003`);
    }
    own = await addFullShop(database.pool, 'Ownmark', 12);
    other = await addFullShop(database.pool, 'Othermark', 12);
    const { organizationId } = own;
    const writer = await addKey(database.pool, organizationId, { scopes: ['write'] });
    const revoked = await addKey(database.pool, organizationId);
    await revokeApiKey(database.pool, revoked.id);
    secrets = {
      own: own.secret,
      other: other.secret,
      writer: writer.secret,
      revoked: revoked.secret,
      wrong: `crm_live_${'a'.repeat(42)}`,
      none: undefined,
    };
    // DuckDB serves one organization, Postgres the other.
    await worker.once([organizationId]);
    client = await listenAndConnect(api.app, batchSize);
  });
  afterAll(async () => {
    client.close();
  });

  const bearer = (key: KeyKind) =>
    secrets[key] === undefined ? undefined : `Bearer ${secrets[key]}`;
  const plainRequest: ClientRequest = {
    kind: 'client',
    method: 'GET',
    url: '/v1/me',
    key: 'own',
    headers: {},
    body: null,
  };

  /** The client checks each response against the OpenAPI document. */
  async function responsesTo(request: HostileRequest): Promise<SocketResponse[]> {
    const authorization = bearer(request.key);
    try {
      if (request.kind === 'raw') {
        const line = authorization === undefined ? 'X: none' : `Authorization: ${authorization}`;
        const bytes = request.bytes.replaceAll(keyPlaceholder, line);
        return await client.sendBytes(bytes, { endAfterMs: 40 });
      }
      return [await client.send(withKey(request, authorization))];
    } catch (error) {
      // If the server closes the connection while the client sends, the response may be lost.
      if (request.kind === 'client' && isRefusedEarly(request) && isReset(error)) return [];
      throw new Error(`unexpected response to ${JSON.stringify(request)}`, { cause: error });
    }
  }

  /** Responses by status, to detect a run that never passes the first check. */
  const counts = new Map<number, number>();

  async function expectContract(request: HostileRequest): Promise<void> {
    for (const response of await responsesTo(request)) {
      counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
      try {
        expectAllowed(request, response);
        expectNothingForeign(request, response);
      } catch (error) {
        const shown = { ...response, body: response.body.slice(0, 2000) };
        throw new Error(`${JSON.stringify(request)}\nresulted in ${JSON.stringify(shown)}`, {
          cause: error,
        });
      }
    }
  }

  /** Checks rules that the OpenAPI document does not contain. */
  function expectAllowed(request: HostileRequest, { status, headers }: SocketResponse): void {
    expect(headers).not.toHaveProperty('x-injected');
    const url = request.kind === 'client' ? request.url : (request.bytes.split(' ')[1] ?? '');
    const isOutside = !/^\/v1(?![^/?#;%])/.test(url);
    const sent = decodePercent(request.kind === 'client' ? request.url : request.bytes);
    // The change feed refuses unknown cursors, and organizations that are not published.
    const isOfFeed = sent.includes('/purchases/changes');
    expect(isOfFeed ? [...allowedStatuses, 409] : allowedStatuses).toContain(status);
    // Without a valid key, the only responses are 401, 429, and 400 for invalid HTTP.
    const isKeyless = ['revoked', 'wrong', 'none'].includes(request.key);
    if (isKeyless && !isOutside && request.kind === 'client') {
      expect([400, 401, 429]).toContain(status);
    }
  }

  /** Data of an organization is in responses to its own keys only. A response may repeat the request. */
  function expectNothingForeign(request: HostileRequest, { headers, body }: SocketResponse): void {
    const requestText = JSON.stringify(request);
    const responseText = `${JSON.stringify(headers)}${body}`;
    const foreignMarks = [
      ...(request.key === 'own' ? [] : own.marks),
      ...(request.key === 'other' ? [] : other.marks),
    ];
    const leaked = foreignMarks.filter(
      (mark) => responseText.includes(mark) && !requestText.includes(mark),
    );
    expect(leaked).toEqual([]);
    const secret = secrets[request.key];
    if (secret !== undefined) expect(responseText).not.toContain(secret);
  }

  it('follows the contract, keeps responding, and retains no memory', {
    timeout: 120_000 + requestCount * 5,
  }, async ({ api }) => {
    const heap: { warm?: number } = {};
    let batches = 0;
    const { body } = await api.get('/openapi.json');
    const target = { operations: describedOperations(body), own: own.ids, other: other.ids };
    const batch = fc.array(hostileRequest(target), {
      minLength: batchSize,
      maxLength: batchSize,
    });
    const checked = await fc.check(
      fc.asyncProperty(batch, async (requests) => {
        await Promise.all(requests.map(expectContract));
        batches += 1;
        if (batches === Math.ceil(batchCount / 3)) heap.warm = heldBytes();
      }),
      // The message contains the request that failed, so there is nothing to shrink.
      { numRuns: batchCount, endOnFailure: true, ...replayed },
    );
    if (checked.failed) {
      const { seed, counterexamplePath: path, errorInstance: cause } = checked;
      throw new Error(`again with FUZZ_SEED=${seed} FUZZ_PATH=${path}`, { cause });
    }
    const grown = heap.warm === undefined ? 0 : heldBytes() - heap.warm;
    expect(grown, `grew by ${grown} bytes`).toBeLessThan(heapNoise);

    const afterwards = await client.send(withKey(plainRequest, bearer('own')));
    expect(afterwards.status).toBe(200);
    expect(JSON.parse(afterwards.body).organization.id).toBe(own.ids.organization[0]);
    // Every status occurred, and a fifth of the requests reached the data.
    if (batches < 100) return;
    const seen = allowedStatuses.filter((status) => status !== 429);
    expect([...counts.keys()]).toEqual(expect.arrayContaining(seen));
    expect(counts.get(200)).toBeGreaterThan(requestCount / 5);
  });
});

/** The request's own headers replace the key's. */
const withKey = (request: ClientRequest, authorization: string | undefined): ClientRequest => ({
  ...request,
  headers: { ...(authorization === undefined ? {} : { authorization }), ...request.headers },
});

/** Requests that the server refuses before it has read them completely. */
function isRefusedEarly({ method, url, headers, body }: ClientRequest): boolean {
  const head = url.length + JSON.stringify(headers).length;
  return (
    head > maxHeadLength || (body !== null && body.length > 1000) || !/^[A-Z]{3,8}$/.test(method)
  );
}

function isReset(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE'].includes(String((error as NodeJS.ErrnoException).code));
}
