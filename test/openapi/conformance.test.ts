import { describe, expect } from 'vitest';
import type { Answer } from '../support/described-response.ts';
import { test } from '../support/fixtures.ts';
import { type Check, createConformance } from '../support/openapi.ts';

const it = test.extend(
  'answerTo',
  ({ get }) =>
    async (url: string, headers?: Record<string, string>): Promise<Answer> => {
      const response = await get(url, headers);
      return { status: response.statusCode, headers: response.headers, body: response.body };
    },
);

describe('the check of every response in every test', () => {
  let check: Check;
  it.beforeAll(async ({ api }) => {
    check = createConformance((await api.get('/openapi.json')).json());
  });

  it.for<[string, string, (answer: Answer) => Partial<Answer>, RegExp]>([
    ['a status', '/v1/me', () => ({ status: 201 }), /not in the API's description/],
    ['a field too many', '/v1/me', ({ body }) => ({ body: put(body, 'x') }), /additional/],
    ['a field of another type', '/v1/me', ({ body }) => ({ body: put(body, 'livemode') }), /bool/],
    ['no header', '/v1/me', (answer) => without(answer, 'etag'), /lacks ETag/],
    ['a header too many', '/v1/tags', (answer) => having(answer, 'etag', '"a"'), /has .*ETag/],
    ['a malformed header', '/v1/tags', (answer) => having(answer, 'request-id', 'x'), /pattern/],
    ['no number', '/v1/tags', (answer) => having(answer, 'x-ratelimit-limit', 'x'), /integer/],
    ['another type', '/v1/tags', (answer) => having(answer, 'content-type', 'text/csv'), /type/],
    ['a 304 with a body', '/v1/me', () => ({ status: 304 }), /has content-/],
    ['another’s error', '/v1/nothing', ({ body }) => ({ body: body.replace('req_', '_') }), /as/],
    ['another’s type', '/v1/nothing', ({ body }) => ({ body: mistyped(body) }), /contradicts/],
    ['more than an error', '/nothing', ({ body }) => ({ body: put(body, 'x') }), /additional/],
    ['a success nobody knows', '/nothing', () => ({ status: 200 }), /not in the API's/],
    ['a probe', '/healthz', ({ body }) => ({ body: put(body, 'status') }), /constant/],
  ] as const)(
    'finds %s that is not described',
    async ([_what, url, change, problem], { answerTo }) => {
      const answer = await answerTo(url);
      check('GET', url, answer);
      expect(() => check('GET', url, { ...answer, ...change(answer) })).toThrow(problem);
    },
  );

  it('lets HEAD have no body, and only HEAD', async ({ answerTo }) => {
    const answer = { ...(await answerTo('/v1/me')), body: '' };
    check('HEAD', '/v1/me', answer);
    expect(() => check('GET', '/v1/me', answer)).toThrow();
  });
});

const put = (body: string, name: string) => JSON.stringify({ ...JSON.parse(body), [name]: 'x' });
const mistyped = (body: string) => body.replace('invalid_request', 'not_found');
const having = ({ headers }: Answer, name: string, value: string) => ({
  headers: { ...headers, [name]: value },
});
const without = ({ headers }: Answer, name: string) => ({
  headers: { ...headers, [name]: undefined },
});
