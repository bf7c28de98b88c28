import type { LightMyRequestResponse } from 'fastify';
import { expect } from 'vitest';

/** The error types and statuses of section 7. */
export const statusOf = {
  invalid_request: 400,
  authentication_error: 401,
  permission_denied: 403,
  not_found: 404,
  conflict: 409,
  validation_error: 422,
  rate_limited: 429,
  internal_error: 500,
} as const;

type RefusalBody = {
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly param?: string;
    readonly request_id: string;
  };
  readonly retry_after?: number;
};

/** Requires that a response is this error, with exactly the specified fields, and returns its body. */
export function expectRefusal(
  response: LightMyRequestResponse,
  type: keyof typeof statusOf,
  param?: string,
): RefusalBody {
  const requestId = response.headers['request-id'];
  expect(response.json(), response.body).toStrictEqual({
    error: {
      type,
      message: expect.stringMatching(/\S/),
      ...(param === undefined ? {} : { param }),
      request_id: requestId,
    },
    ...(type === 'rate_limited' ? { retry_after: expect.any(Number) } : {}),
  });
  expect(response.statusCode).toBe(statusOf[type]);
  expect(requestId).toMatch(/^req_[a-f0-9]{24}$/);
  expect(response.headers['content-type']).toMatch(/^application\/json\b/);
  return response.json();
}

/** A response without the values that differ between requests. */
export function comparable(response: LightMyRequestResponse) {
  const headers = { ...response.headers };
  const requestId = String(headers['request-id']);
  for (const name of ['date', 'request-id', 'x-data-as-of']) {
    if (name in headers) headers[name] = 'some';
  }
  for (const name of ['remaining', 'reset']) delete headers[`x-ratelimit-${name}`];
  return { status: response.statusCode, headers, body: response.body.replaceAll(requestId, 'req') };
}
