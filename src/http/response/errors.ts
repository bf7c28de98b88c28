import type { Limit } from '../observer.ts';

/** Section 7: exactly these eight, each with its status. */
export const errorStatuses = {
  invalid_request: 400,
  authentication_error: 401,
  permission_denied: 403,
  not_found: 404,
  conflict: 409,
  validation_error: 422,
  rate_limited: 429,
  internal_error: 500,
} as const;
export type ErrorType = keyof typeof errorStatuses;

/** An error of section 7, as the client sees it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly type: ErrorType;
  readonly param: string | undefined;
  /** Whole seconds; in the body with rate_limited only. */
  readonly retryAfter: number | undefined;
  /** The instant of the data that the request read. */
  readonly asOf: bigint | undefined;
  /** With rate_limited: the limit that the request exceeded. */
  readonly limit: Limit | undefined;

  constructor(
    type: ErrorType,
    message: string,
    details: {
      readonly param?: string;
      readonly retryAfter?: number;
      readonly asOf?: bigint;
      readonly limit?: Limit;
    } = {},
  ) {
    super(message);
    this.type = type;
    this.param = details.param;
    this.retryAfter = details.retryAfter;
    this.asOf = details.asOf;
    this.limit = details.limit;
  }
}

/** Removes API keys that a client sent in a URL. */
const redact = (text: string): string => text.replaceAll(/crm_live_\w+/g, 'crm_live_…');

export function errorBody(error: ApiError, requestId: string) {
  return {
    error: {
      type: error.type,
      message: redact(error.message),
      ...(error.param === undefined ? {} : { param: redact(error.param) }),
      request_id: requestId,
    },
    ...(error.type === 'rate_limited' ? { retry_after: error.retryAfter } : {}),
  };
}

export const notFound = (resource: string, details: { readonly asOf?: bigint } = {}): ApiError =>
  new ApiError('not_found', `There is no such ${resource}.`, details);

export function unknownRoute({ method, url }: { method: string; url: string }): ApiError {
  const path = url.split('?', 1)[0]?.slice(0, 256);
  // Clients of other protocols look for documents there, and only 404 tells them that there is none (RFC 8615).
  const type = path?.startsWith('/.well-known/') ? 'not_found' : 'invalid_request';
  return new ApiError(type, `There is no ${method} ${path} here.`);
}
