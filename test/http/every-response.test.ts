import type { InjectOptions, LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { encodings } from '../../src/http/response/compression.ts';
import type { TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { bodyOf } from '../support/openapi.ts';
import { testServices } from '../support/services.ts';
import { addKey } from '../support/shop.ts';
import { endpoints } from './endpoints.ts';
import { addFullShop, type FullShop } from './full-shop.ts';
import { comparable, expectRefusal } from './refusal.ts';

type Route = {
  /** A path with the resource of an id in braces. */
  readonly path: string;
  readonly status: number;
  readonly isTagged: boolean;
  /** Whether the response is known to be large enough for compression. */
  readonly isLarge?: true;
  readonly isCompressible: boolean;
};

const route = (path: string, changes: Partial<Route> = {}): Route => ({
  ...{ path, status: 200, isTagged: false, isCompressible: true },
  ...changes,
});

const stats = '/v1/purchases/stats?group_by=day&group_limit=50';
const series = '/v1/purchases/timeseries?interval=day&created_until=2026-02-01T00:00:00Z';
const report = '/v1/purchases/report?group_by=customer,day&created_until=2026-02-01T00:00:00Z';
const cohorts = '/v1/purchases/cohorts?interval=week&created_until=2026-02-01T00:00:00Z';
const tagged = [
  ...endpoints.filter(({ kind }) => kind !== 'list').map(({ path }) => `/v1${path}`),
  ...[stats, series, report, cohorts].flatMap((path) => [
    path,
    ...['csv', 'csv_excel', 'ndjson', 'arrow'].map((format) => `${path}&format=${format}`),
  ]),
];
const untagged = [
  ...endpoints.filter(({ kind }) => kind === 'list').map(({ path }) => `/v1${path}`),
  ...['csv', 'csv_excel', 'ndjson', 'arrow'].flatMap((format) => [
    `/v1/purchases?format=${format}`,
    `/v1/customers/{customer}/purchases?format=${format}`,
    `/v1/customers?format=${format}`,
    `/v1/segments/{segment}/customers?format=${format}`,
  ]),
  '/healthz',
];
const large = ['/v1/customers', '/v1/purchases', '/v1/customers/{customer}', stats];

const routes: readonly Route[] = [
  ...tagged.map((path) => route(path, { isTagged: true })),
  ...untagged.map((path) => route(path)),
  ...['/docs', '/docs/', '/docs/start.js', '/docs/swagger-ui.css'].map((path) =>
    route(path, { isTagged: true }),
  ),
  ...['/app', '/app/customers/cus_1', '/assets/page/browser/main.js'].map((path) =>
    route(path, { isTagged: true }),
  ),
  route('/openapi.json', { isTagged: true, isLarge: true }),
  route('/docs/swagger-ui-bundle.js', { isTagged: true, isLarge: true }),
  route('/docs/favicon-32x32.png', { isTagged: true, isCompressible: false }),
  route('/assets/page.css', { isTagged: true }),
  route('/v1/nothing', { status: 400 }),
  route('/v1/%ZZ', { status: 400 }),
  route('/nothing', { status: 400 }),
  route('/v1/purchases/pur_nobody', { status: 404 }),
  route('/v1/purchases?limit=0', { status: 422 }),
  route(`/v1/tags?${'a'.repeat(3000)}=1`, { status: 422, isLarge: true }),
].map((one) => (large.includes(one.path) ? { ...one, isLarge: true } : one));

const tagOf = ({ headers }: LightMyRequestResponse) => String(headers.etag);
const weak = (tag: string) => `W/${tag.replace(/^W\//, '')}`;
/** The values of If-None-Match that match a tag, and others. */
const matching: readonly ((tag: string) => string)[] = [
  (tag) => tag,
  weak,
  () => '*',
  (tag) => `"a", "b", ${tag}`,
  (tag) => `${tag},"b"`,
  (tag) => `W/"a",${weak(tag)},"c"`,
  (tag) => `, "a" ,, ${tag} ,`,
  (tag) => `"a,b", ${tag}`,
];
const different: readonly ((tag: string) => string)[] = [
  () => '"other"',
  (tag) => tag.slice(1, -1),
  (tag) => `${tag.slice(0, -2)}"`,
  () => '"*"',
  () => '',
  () => '""',
];

describe('every response', () => {
  let shop: FullShop;
  const urlOf = (path: string) =>
    path.replace(/\{(\w+)\}/, (_, of: IdentifiedResource) => shop.ids[of][0] as string);

  const it = test.extend(
    'send',
    ({ api }) =>
      (
        path: string,
        headers: Record<string, string> = {},
        method: InjectOptions['method'] = 'GET',
      ) =>
        api.app.inject({
          method: method as 'GET',
          url: urlOf(path),
          headers: { authorization: `Bearer ${shop.secret}`, ...headers },
        }),
  );

  it.beforeAll(async ({ database, worker }) => {
    shop = await addFullShop(database.pool, 'Ação', 20);
    await worker.syncAll();
    await database.pool.query(`update customers set identification = repeat('é', 1000)`);
  });

  /** All routes write headers by the same functions, so each sends one of several forms. */
  const numbered = (some: readonly Route[]) => some.map((one, index) => ({ ...one, index }));
  const formOf = <Form>(forms: readonly Form[], index: number) =>
    forms[index % forms.length] as Form;

  it.for(numbered(routes))(
    'has for HEAD the status and headers of GET, and no body: $path',
    async ({ path, status, isTagged, index }, { send }) => {
      const others = [{ 'accept-encoding': 'gzip' }, { 'if-none-match': '*' }];
      for (const headers of [{}, formOf<Record<string, string>>(others, index)]) {
        const get = await send(path, headers);
        const head = await send(path, headers, 'HEAD');
        const isUnchanged = isTagged && 'if-none-match' in headers;
        expect([get.statusCode, head.body]).toEqual([isUnchanged ? 304 : status, '']);
        const [expected, found] = [comparable(get).headers, comparable(head).headers];
        // The body of an error contains the request id and may contain the method, so its length differs.
        if (status >= 400) delete expected['content-length'];
        if (status >= 400) delete found['content-length'];
        expect([head.statusCode, found]).toEqual([get.statusCode, expected]);
        if (isUnchanged) continue;
        expect(get.headers['content-length']).toBe(String(get.rawPayload.length));
      }
    },
  );

  it.for(numbered(routes))(
    'is compressed if it is large, as Accept-Encoding asks, and equal after decompression: $path',
    async ({ path, isLarge, isCompressible, index }, { send }) => {
      const plain = await send(path);
      const vary = (response: LightMyRequestResponse) => String(response.headers.vary).split(', ');
      const { length } = plain.rawPayload;
      if (isLarge) expect(length).toBeGreaterThan(1024);
      expect(plain.headers).not.toHaveProperty('content-encoding');
      for (const encoding of isLarge ? encodings : [formOf(encodings, index)]) {
        const sent = await send(path, { 'accept-encoding': encoding });
        const { headers, body, ...rest } = comparable(sent);
        const usual = comparable(plain);
        expect({ ...rest, body: isCompressible ? '' : body }).toEqual({
          status: usual.status,
          body: isCompressible ? '' : usual.body,
        });
        if (!isCompressible || length < 1024) {
          expect(headers).toEqual(usual.headers);
          continue;
        }
        expect(headers).toEqual({
          ...usual.headers,
          'content-encoding': encoding,
          'content-length': String(sent.rawPayload.length),
          ...('etag' in plain.headers ? { etag: weak(tagOf(plain)) } : {}),
        });
        const withoutId = (text: string) => text.replaceAll(/req_[a-f0-9]{24}/g, '');
        expect(withoutId(bodyOf(sent))).toBe(withoutId(plain.body));
        expect(sent.rawPayload.length).toBeLessThan(length);
        for (const response of [plain, sent]) {
          expect(vary(response).filter((name) => name === 'Accept-Encoding')).toHaveLength(1);
        }
      }
    },
  );

  it.for(numbered(routes.filter(({ isTagged }) => isTagged)))(
    'is an empty 304 if its ETag is sent in any form and for any encoding, and only then: $path',
    async ({ path, index }, { send }) => {
      for (const encoding of ['identity', 'br']) {
        const accepted = { 'accept-encoding': encoding };
        const full = await send(path, accepted);
        const tag = tagOf(full);
        expect(tag).toMatch(/^(W\/)?"[\x21\x23-\x7e]+"$/);
        expect(tag.startsWith('W/')).toBe('content-encoding' in full.headers);
        const strong = tag.replace('W/', '');
        const unchanged = formOf(matching, index)(strong);
        const response = await send(path, { ...accepted, 'if-none-match': unchanged });
        expect([response.statusCode, response.body]).toEqual([304, '']);
        const { headers } = comparable(full);
        for (const name of ['encoding', 'length', 'type']) delete headers[`content-${name}`];
        expect(comparable(response).headers).toMatchObject(headers);
        expect(Object.keys(response.headers).join()).not.toMatch(
          /\b(?<!-)content-(encoding|length|type)\b(?!-)|transfer/,
        );
        const changed = formOf(different, index)(strong);
        const again = await send(path, { ...accepted, 'if-none-match': changed });
        expect([again.statusCode, bodyOf(again)]).toEqual([200, bodyOf(full)]);
      }
    },
  );

  it.for(routes.filter(({ isTagged }) => !isTagged))(
    'has no ETag and ignores If-None-Match if it is a list or an error: $path',
    async ({ path, status }, { send }) => {
      const response = await send(path, { 'if-none-match': '*' });
      expect(response.statusCode).toBe(status);
      expect(response.headers).not.toHaveProperty('etag');
    },
  );

  // The page of `/` is HTML for browsers.
  it.for(numbered([...routes, route('/')]))(
    'may not be framed, sniffed or read by other sites: $path',
    async ({ path, status, index }, { send }) => {
      const browser = { accept: 'text/html,*/*;q=0.8' };
      for (const sent of [{}, formOf([{ authorization: '' }, { 'if-none-match': '*' }], index)]) {
        const { statusCode, headers } = await send(path, { ...browser, ...sent });
        expect(headers).toMatchObject({
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cross-origin-resource-policy': 'same-origin',
        });
        expect(headers).not.toHaveProperty('strict-transport-security');
        const policy = String(headers['content-security-policy']);
        expect(policy).toContain("frame-ancestors 'none'");
        if (/^\/(openapi|docs)/.test(path)) {
          // Swagger UI runs, and sends requests within its origin alone.
          expect(policy).toContain("default-src 'self'");
          expect(policy).not.toMatch(/script-src|unsafe-eval|https?:|\*/);
        } else if (/^\/(app|assets|$)/.test(path)) {
          // The page loads, and sends requests within its origin alone.
          // The page has an import map, which a hash admits.
          expect(policy).toMatch(/^default-src 'none'; script-src 'self'( 'sha256-[\w+/]+=')?;/);
          expect(policy).not.toMatch(/unsafe|https?:|\*/);
          expect(headers['cache-control']).toBe('no-cache');
          expect(statusCode).toBe('if-none-match' in sent ? 304 : 200);
        } else {
          expect(policy).toBe("default-src 'none'; frame-ancestors 'none'");
        }
        if (status !== 200 || !path.startsWith('/v1')) continue;
        expect(headers['cache-control']).toBe('private, no-cache');
        expect(headers.vary).toBe('Authorization, Accept, Accept-Encoding');
      }
    },
  );

  it('has another ETag in each format', async ({ send }) => {
    const tags: string[] = [];
    for (const { path } of routes.filter(({ path }) => path.startsWith(stats))) {
      tags.push(tagOf(await send(path)));
    }
    expect(new Set(tags).size).toBe(tags.length);
  });

  it('has the same ETag in another instance and from Postgres, until its content changes', async ({
    api,
    database: { pool },
    startApi,
  }) => {
    const other = await startApi({ services: testServices(pool, createPostgresEngine(pool)) });
    const customer = '/v1/customers/{customer}';
    const paths = ['/v1/me', customer, '/v1/purchases/{purchase}', stats];
    const tags = (from: TestApi) =>
      Promise.all(paths.map(async (path) => tagOf(await from.get(urlOf(path), shop.secret))));
    const before = await tags(api);
    expect(await tags(other)).toEqual(before);
    const asOf = async () => (await other.get(stats, shop.secret)).headers['x-data-as-of'];
    expect(await asOf()).not.toBe(await asOf());
    await pool.query(`
      update purchases set purchase_value_in_cents = purchase_value_in_cents + 1;
      update customers set total_orders = total_orders + 1;
      update organizations set name = 'Other'`);
    for (const [index, tag] of (await tags(other)).entries()) {
      expect([paths[index], tag]).not.toEqual([paths[index], before[index]]);
    }
    // The purchases are from the files, which do not have the change.
    expect((await tags(api)).slice(2)).toEqual(before.slice(2));
  });

  it('is refused as without If-None-Match', async ({ api, database, send }) => {
    const any = { 'if-none-match': '*' };
    const writer = await addKey(database.pool, shop.organizationId, { scopes: ['write'] });
    expectRefusal(await api.get('/v1/me', undefined, any), 'authentication_error');
    expectRefusal(await api.get('/v1/me', writer.secret, any), 'permission_denied');
    const unknown = `/v1/purchases/${encodeId('purchase', 999_999_999n)}`;
    expectRefusal(await send(unknown, any), 'not_found');
    expectRefusal(await send(`${stats}&limit=1`, any), 'validation_error', 'limit');
  });
});
