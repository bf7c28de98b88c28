import { describe, expect } from 'vitest';
import type { ReceivedResponse } from '../support/described-response.ts';
import { test } from '../support/fixtures.ts';
import { type Check, createConformance } from '../support/openapi.ts';

const it = test.extend(
  'responseTo',
  ({ get }) =>
    async (url: string, headers?: Record<string, string>): Promise<ReceivedResponse> => {
      const response = await get(url, headers);
      return { status: response.statusCode, headers: response.headers, body: response.body };
    },
);

describe('the check of every response in every test', () => {
  let check: Check;
  it.beforeAll(async ({ api }) => {
    check = createConformance((await api.get('/openapi.json')).json());
  });

  it.for<[string, string, (response: ReceivedResponse) => Partial<ReceivedResponse>, RegExp]>([
    ['a status', '/v1/me', () => ({ status: 201 }), /not in the OpenAPI document/],
    ['an additional field', '/v1/me', ({ body }) => ({ body: put(body, 'x') }), /additional/],
    ['a field of another type', '/v1/me', ({ body }) => ({ body: put(body, 'livemode') }), /bool/],
    ['no header', '/v1/me', (response) => without(response, 'etag'), /lacks ETag/],
    [
      'an additional header',
      '/v1/tags',
      (response) => having(response, 'etag', '"a"'),
      /has .*ETag/,
    ],
    [
      'a malformed header',
      '/v1/tags',
      (response) => having(response, 'request-id', 'x'),
      /pattern/,
    ],
    ['no number', '/v1/tags', (response) => having(response, 'x-ratelimit-limit', 'x'), /integer/],
    [
      'another type',
      '/v1/tags',
      (response) => having(response, 'content-type', 'text/csv'),
      /type/,
    ],
    ['a 304 with a body', '/v1/me', () => ({ status: 304 }), /has content-/],
    [
      'an invalid request id',
      '/v1/nothing',
      ({ body }) => ({ body: body.replace('req_', '_') }),
      /pattern/,
    ],
    [
      'the type of another error',
      '/v1/nothing',
      ({ body }) => ({ body: mistyped(body) }),
      /contradicts/,
    ],
    ['more than an error', '/nothing', ({ body }) => ({ body: put(body, 'x') }), /additional/],
    ['an unknown success', '/nothing', () => ({ status: 200 }), /not in the OpenAPI/],
    ['a probe', '/healthz', ({ body }) => ({ body: put(body, 'status') }), /constant/],
  ] as const)(
    'finds %s that is not described',
    async ([_what, url, change, problem], { responseTo }) => {
      const response = await responseTo(url);
      check('GET', url, response);
      expect(() => check('GET', url, { ...response, ...change(response) })).toThrow(problem);
    },
  );

  it('allows a response without a body for HEAD only', async ({ responseTo }) => {
    const response = { ...(await responseTo('/v1/me')), body: '' };
    check('HEAD', '/v1/me', response);
    expect(() => check('GET', '/v1/me', response)).toThrow();
  });
});

const put = (body: string, name: string) => JSON.stringify({ ...JSON.parse(body), [name]: 'x' });
const mistyped = (body: string) => body.replace('invalid_request', 'not_found');
const having = ({ headers }: ReceivedResponse, name: string, value: string) => ({
  headers: { ...headers, [name]: value },
});
const without = ({ headers }: ReceivedResponse, name: string) => ({
  headers: { ...headers, [name]: undefined },
});
