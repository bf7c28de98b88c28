import pg from 'pg';
import { describe, expect, vi } from 'vitest';
import { test } from '../support/fixtures.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres-server.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { checkedFetch } from '../support/sockets.ts';
import { syncOnce } from '../support/sync.ts';

/** Other clients of Postgres, which take its connections. */
function createOtherClients({ url }: PostgresServer) {
  const clients: pg.Client[] = [];
  return {
    /** Connects until Postgres refuses. */
    async takeAll(): Promise<void> {
      for (;;) {
        const client = new pg.Client({ connectionString: url });
        try {
          await client.connect();
        } catch (error) {
          expect(error).toMatchObject({ code: '53300' });
          return;
        }
        clients.push(client);
      }
    },
    query: async (statement: string) => (await clients[0]?.query(statement))?.rows ?? [],
    async close() {
      await Promise.all(clients.splice(0).map((client) => client.end()));
    },
  };
}

const ofApi = `from pg_stat_activity where application_name like 'crm-data-service api%'`;

describe('an API while other clients take all connections of Postgres', () => {
  test('serves requests with the connections that it keeps open, and without one reports the refusal', {
    tags: ['slow'],
  }, async ({ newDirectory: directory, program, onTestFinished }) => {
    const server = await startPostgresServer(directory, { max_connections: '30' });
    onTestFinished(server.remove);
    const organizationId = await addOrganization(server.pool);
    const { secret } = await addKey(server.pool, organizationId);
    const customerId = await addCustomer(server.pool, organizationId);
    await addPurchases(server.pool, organizationId, customerId, 10);
    await syncOnce(server.pool, directory);
    const environment = { DATABASE_URL: server.url, DATA_DIR: directory };
    const api = program('src/commands/api.ts', [], environment);
    const [, url] = await api.printed(/Listening on (http[^\s"]+)/);
    const get = (path: string) =>
      checkedFetch(`${url}${path}`, { headers: { authorization: `Bearer ${secret}` } });
    const getStats = (minimum: number) => get(`/v1/purchases/stats?min_value_in_cents=${minimum}`);
    const statusesOf = async (requests: readonly Promise<Response>[]) =>
      (await Promise.all(requests)).map(({ status }) => status);
    const several = Array.from({ length: 20 }, (_, index) => index);

    // Idle connections close after ten seconds.
    expect(await statusesOf(several.map(getStats))).toEqual(several.map(() => 200));
    const countOpen = async () => (await server.pool.query(`select ${ofApi}`)).rowCount;
    await vi.waitUntil(async () => (await countOpen()) === 2, { timeout: 60_000 });

    const others = createOtherClients(server);
    onTestFinished(others.close);
    await others.takeAll();
    expect(await statusesOf(several.map((index) => getStats(100 + index)))).toEqual(
      several.map(() => 200),
    );
    const paths = ['/v1/customers', '/v1/tags', '/v1/segments', '/readyz'];
    expect(await statusesOf(paths.map(get))).toEqual(paths.map(() => 200));

    await others.query(`select pg_terminate_backend(pid) ${ofApi}`);
    await others.takeAll();
    await vi.waitFor(async () =>
      expect(await (await get('/readyz')).json()).toEqual({
        status: 'unavailable',
        problem:
          'Postgres refused the connection (SQLSTATE 53300). ' +
          'Raise max_connections, or close connections of others.',
      }),
    );
    expect(await statusesOf([getStats(1), get('/readyz')])).toEqual([500, 503]);

    await others.close();
    await vi.waitFor(async () =>
      expect(await statusesOf([getStats(2), get('/readyz')])).toEqual([200, 200]),
    );
    expect(await api.end('SIGTERM')).toBe(0);
  });
});
