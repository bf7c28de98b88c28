import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PurchaseEngine } from '../../domain/purchase-engine.ts';
import { jsonOf } from '../../process/json-file.ts';
import type { SpreadsheetOptions } from '../formats/csv.ts';
import { ApiError, unknownRoute } from '../response/errors.ts';
import type { ApiRequest, Route } from '../route.ts';
import { signalOf } from './client-disconnect.ts';
import { readSpreadsheetOptions } from './format-parameters.ts';
import {
  type GivenValues,
  parseQueryString,
  queryStringOf,
  readParameters,
} from './read-parameters.ts';

/** The texts of a request's parameters. */
export type GivenParameters = { readonly path: GivenValues; readonly query: GivenValues };

/** Reads the parameters from the URL. */
export function createRequestReader(route: Route, purchases: PurchaseEngine) {
  return (request: FastifyRequest): ApiRequest<unknown, unknown> => {
    const rawUrl = request.raw.url ?? '';
    // The router ends the URL at a #, and would ignore the parameters after it.
    if (rawUrl.includes('#')) {
      throw new ApiError('invalid_request', 'The URL holds a #; write it as %23.');
    }
    requirePathParameters(request);
    refuseBody(request);
    return readApiRequest(route, purchases, request, {
      path: request.params as Record<string, string>,
      // The error of a parameter of the path precedes that of the query string.
      get query() {
        return parseQueryString(queryStringOf(rawUrl));
      },
    });
  };
}

export function readApiRequest(
  { url, path, query }: Route,
  purchases: PurchaseEngine,
  request: FastifyRequest,
  parameters: GivenParameters,
): ApiRequest<unknown, unknown> {
  const { credential } = request;
  const pathParameters = readParameters(path, parameters.path);
  const given = parameters.query;
  const queryParameters = readParameters(query, given);
  const spreadsheet = readSpreadsheetOptions(
    query,
    given,
    queryParameters as Record<string, unknown>,
  );
  return {
    path: pathParameters,
    query: queryParameters,
    spreadsheet,
    cacheKey: cacheKeyOf(url, pathParameters, queryParameters, spreadsheet),
    purchases: purchases.forSource(credential.source),
    organizationId: credential.organizationId,
    credential,
    client: `key ${credential.keyId}`,
    get signal() {
      return signalOf(request);
    },
  };
}

/** For the router, `/customers/` is a customer with an empty id. */
function requirePathParameters(request: FastifyRequest): void {
  if (Object.values(request.params as object).includes('')) throw unknownRoute(request);
}

/** The same key for the same values in any order and spelling. */
function cacheKeyOf(
  url: string,
  path: unknown,
  query: unknown,
  spreadsheet: SpreadsheetOptions | undefined,
): string {
  const parameters = Object.entries({ ...(path as object), ...(query as object) }).sort();
  // A time zone that the request gives changes the rows, even if it is the default.
  return jsonOf([url, parameters, spreadsheet?.timezone]);
}

function hasBody({ headers }: FastifyRequest): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  return encoding !== undefined || (length !== undefined && length !== '0');
}

/** Operations take no request body (section 4). */
function refuseBody(request: FastifyRequest): void {
  if (hasBody(request)) throw new ApiError('invalid_request', 'A GET request takes no body.');
}

/**
 * Closes the connection after the response to a request with a body. No body is read: a
 * keep-alive connection would stay occupied until the client has sent all of it.
 */
export function closeAfterBody(request: FastifyRequest, reply: FastifyReply): void {
  if (hasBody(request)) reply.header('Connection', 'close');
}
