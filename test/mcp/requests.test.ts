import { setTimeout as sleep } from 'node:timers/promises';
import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { recordedLog } from '../http/recorded-log.ts';
import { expectRefusal } from '../http/refusal.ts';
import { lockTables } from '../support/locks.ts';
import { addKey } from '../support/shop.ts';
import { checkedFetch, connectTo } from '../support/sockets.ts';
import { agentTest, modes, originOf, textOf } from './agent.ts';

const it = agentTest
  .extend('recorded', { scope: 'file' }, () => recordedLog())
  .extend('apiOptions', { scope: 'file' }, ({ recorded }) => ({ log: recorded.log }))
  /** Sends a body with the key of `shop`. */
  .extend(
    'post',
    ({ api, shop }) =>
      (payload: string, headers: Record<string, string> = {}): Promise<LightMyRequestResponse> =>
        api.app.inject({
          method: 'POST',
          url: '/mcp',
          payload,
          headers: {
            authorization: `Bearer ${shop.secret}`,
            'content-type': 'application/json',
            ...headers,
          },
        }),
  )
  .extend('clientOfApi', async ({ api }, { onCleanup }) => {
    const client = await connectTo(Number(new URL(await originOf(api)).port));
    onCleanup(async () => client.close());
    return client;
  })
  /** Waits until so many statements of the API wait for a lock. */
  .extend('untilWaiting', ({ database }) => async (count: number) => {
    const waiting = `select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`;
    while ((await database.pool.query(waiting)).rowCount !== count) await sleep(10);
  });

const messageOf = (method: string, params: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
const ping = messageOf('ping');
const callOf = (name: string, args: object = {}) =>
  messageOf('tools/call', { name, arguments: args });

describe('the key of a request to /mcp', () => {
  it('is required, as under /v1', async ({ api, post, shop, database }) => {
    const none = await api.app.inject({ method: 'POST', url: '/mcp', payload: ping });
    expectRefusal(none, 'authentication_error');
    expect(none.headers['www-authenticate']).toBe('Bearer');
    expectRefusal(await post(ping, { authorization: 'Bearer x' }), 'authentication_error');
    const { secret } = await addKey(database.pool, shop.organizationId, { scopes: ['write'] });
    expectRefusal(await post(ping, { authorization: `Bearer ${secret}` }), 'permission_denied');
  });

  it('is refused at once after it was revoked', async ({ connect, database, shop }) => {
    const { id, secret } = await addKey(database.pool, shop.organizationId);
    const agent = await connect({ secret });
    await agent.call('list_segments');
    await database.pool.query('update api_keys set revoked_at = now() where id = $1', [id]);
    await expect(agent.call('list_segments')).rejects.toThrow(/authentication_error|401/);
  });

  it('reads only its own organization', async ({ connect, database, customerId, otherShop }) => {
    const { rows } = await database.pool.query<{ id: bigint }>(
      'insert into segments (organization_id, name) select organization_id, $1 from customers where id = $2 returning id',
      ['Theirs', customerId],
    );
    expect(rows).toHaveLength(1);
    const agent = await connect({ secret: otherShop.secret });
    expect((await agent.call('list_segments')).structuredContent.data).toEqual([]);
    expect((await agent.call('find_customers')).structuredContent.data).toEqual([]);
    const own = await connect();
    const [{ id }] = (await own.call('find_customers')).structuredContent.data;
    const error = await agent.fail('get_customer', { customer_id: id });
    expect(error.message).toBe('There is no such customer.');
  });
});

describe('the rate limit', () => {
  it('counts each message once, also if a tool asks for three results of purchases', async ({
    startApi,
    otherShop,
    worker,
  }) => {
    await worker.once([otherShop.organizationId]);
    let results = 0;
    const ignore = () => {};
    const observer = {
      ...{ responded: ignore, limited: ignore, keyFailed: ignore },
      ...{ exportStarted: ignore, exportSent: ignore, exportEnded: ignore },
      cacheRead: () => {
        results += 1;
      },
    };
    const limited = await startApi({ rateLimitPerMinute: 2, observer });
    const send = (payload: string) =>
      limited.app.inject({
        method: 'POST',
        url: '/mcp',
        payload,
        headers: {
          authorization: `Bearer ${otherShop.secret}`,
          'content-type': 'application/json',
        },
      });
    const first = await send(callOf('about_this_data'));
    expect(first.statusCode).toBe(200);
    expect(results).toBe(3);
    expect(first.headers).toMatchObject({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '1',
      'cache-control': 'private, no-cache',
      'request-id': expect.stringMatching(/^req_/),
    });
    expect((await limited.get('/v1/me', otherShop.secret)).headers['x-ratelimit-remaining']).toBe(
      '0',
    );
    expectRefusal(await send(callOf('list_segments')), 'rate_limited');
  });
});

describe('a body', () => {
  it.for<[string, string, string?]>([
    ['that is empty', ''],
    ['that is no JSON', '{'],
    ['that is no object', '7'],
    ['that is null', 'null'],
    ['of several messages', `[${ping},${ping}]`],
    ['of another media type', ping, 'text/plain'],
    ['that is too large', JSON.stringify({ text: 'x'.repeat(70_000) })],
  ])('%s is refused before the protocol', async ([_what, payload, type], { post }) => {
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
    expectRefusal(await post(payload, headers), 'invalid_request');
  });

  it('that is no message is an error of the protocol', async ({ post }) => {
    for (const payload of ['{}', '{"jsonrpc":"1.0","id":1,"method":"ping"}']) {
      const response = await post(payload);
      expect(response.statusCode).toBe(400);
      expect(response.json()).toMatchObject({ error: { code: expect.any(Number) } });
    }
    const unknown = (await post(messageOf('resources/list'))).json();
    expect(unknown).toMatchObject({ id: 1, error: { code: -32601 } });
  });

  it('may be followed by the next request on the connection, unless it was refused', async ({
    clientOfApi,
    shop,
  }) => {
    const send = (authorization: string) =>
      clientOfApi.send({
        method: 'POST',
        url: '/mcp',
        headers: { authorization, 'content-type': 'application/json' },
        body: ping,
      });
    expect((await send(`Bearer ${shop.secret}`)).headers.connection).toBe('keep-alive');
    expect((await send('Bearer x')).headers.connection).toBe('close');
  });
});

describe('a message', () => {
  it('may have null for params and arguments that it leaves out', async ({ post }) => {
    const message = (method: string, params: unknown) =>
      JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const listed = (await post(message('tools/list', null))).json();
    expect(listed.result.tools.length).toBeGreaterThan(5);
    const params = { name: 'list_segments', arguments: null };
    const called = (await post(message('tools/call', params))).json();
    expect(called.result.structuredContent).toMatchObject({ has_more: false });
  });
});

describe('an Origin', () => {
  it('is refused if it is of another site', async ({ startApi, shop }) => {
    const { app } = await startApi({ corsOrigins: ['https://app.example.com'] });
    const statusOf = async (origin: string, host = 'api.example:3000') => {
      const authorization = `Bearer ${shop.secret}`;
      const headers = { authorization, origin, host, 'content-type': 'application/json' };
      const response = await app.inject({ method: 'POST', url: '/mcp', payload: ping, headers });
      if (response.statusCode === 403) expectRefusal(response, 'permission_denied');
      return response.statusCode;
    };
    for (const origin of [
      'https://app.example.com',
      'http://api.example:3000',
      'https://API.example:3000',
    ]) {
      expect(await statusOf(origin), origin).toBe(200);
    }
    for (const origin of [
      'null',
      'https://evil.example',
      'http://api.example',
      'api.example:3000',
      '',
    ]) {
      expect(await statusOf(origin), origin).toBe(403);
    }
    expect(await statusOf('null', 'null')).toBe(403);
  });
});

describe('a body that the client sends after 100 Continue', () => {
  const head = (authorization: string) =>
    `POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${authorization}\r\nConnection: close\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${ping.length}\r\nExpect: 100-continue\r\n\r\n`;

  it('is requested after the key check', async ({ clientOfApi, shop }) => {
    const socket = clientOfApi.openSocket(head(shop.secret));
    const received: Buffer[] = [];
    for await (const part of socket) {
      if (received.length === 0) socket.write(ping);
      received.push(part);
    }
    expect(String(Buffer.concat(received))).toMatch(
      /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK/,
    );
  });

  it('is not requested without a valid key', async ({ clientOfApi }) => {
    const received: string[] = [];
    for await (const part of clientOfApi.openSocket(head('crm_live_x')))
      received.push(String(part));
    expect(received.join('')).toMatch(/^HTTP\/1.1 401 /);
  });
});

it('a Content-Encoding that is not understood is 415', async ({ post }) => {
  for (const encoding of ['gzip', 'br', 'identity, gzip']) {
    const response = await post(ping, { 'content-encoding': encoding });
    expect(response.statusCode).toBe(415);
    expect(response.json().error.type).toBe('invalid_request');
    expect(response.headers['accept-encoding']).toBe('identity');
  }
  expect((await post(ping, { 'content-encoding': 'identity' })).statusCode).toBe(200);
});

it('documents of other protocols are 404', async ({ api }) => {
  for (const path of ['oauth-protected-resource', 'oauth-authorization-server/mcp', '']) {
    expectRefusal(await api.get(`/.well-known/${path}`), 'not_found');
  }
});

it('other methods than POST are 405', async ({ api, shop }) => {
  const url = `${await originOf(api)}/mcp`;
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const headers = { authorization: `Bearer ${shop.secret}` };
    const response = await checkedFetch(url, { method, headers });
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe('POST');
    expect((await checkedFetch(url, { method })).status).toBe(401);
  }
});

describe('a client that cancels a call', () => {
  it('leaves no statement running', async ({
    connect,
    database,
    untilWaiting,
    onTestFinished,
    recorded: { lines },
  }) => {
    const unlock = await lockTables(database.pool, 'purchases');
    onTestFinished(unlock);
    const { client } = await connect();
    const controller = new AbortController();
    const options = { signal: controller.signal };
    lines.length = 0;
    const called = client.callTool({ name: 'list_purchases', arguments: {} }, options);
    const outcome = called.then(textOf, () => 'cancelled');
    await untilWaiting(1);
    controller.abort();
    await untilWaiting(0);
    expect(await outcome).toBe('cancelled');
    while (!lines.some((line) => line.includes('client disconnected'))) await sleep(10);
    expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
  });

  it('by closing the connection leaves none, with any revision of the protocol', async ({
    clientOfApi,
    database,
    shop,
    untilWaiting,
    onTestFinished,
  }) => {
    const unlock = await lockTables(database.pool, 'purchases');
    onTestFinished(unlock);
    const body = callOf('purchase_report');
    const socket = clientOfApi.openSocket(
      `POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.secret}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await untilWaiting(1);
    socket.destroy();
    await untilWaiting(0);
  });
});

// Last, because the log sums up failures some time after they happen.
describe('a failure', () => {
  it.for(modes)(
    'of the service is an error without details, for a client that connects by %s',
    async (mode, { connect, database, recorded: { lines } }) => {
      const agent = await connect({ mode });
      await database.pool.query('alter table segments rename to hidden');
      try {
        const error = await agent.fail('list_segments', {});
        expect(error.text).toMatch(/^Something went wrong on our side/);
      } finally {
        await database.pool.query('alter table hidden rename to segments');
      }
      expect(lines.some((line) => line.includes('request failed'))).toBe(true);
      expect(lines.some((line) => line.includes('"route":"/mcp"'))).toBe(true);
    },
  );
});
