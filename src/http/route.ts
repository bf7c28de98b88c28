import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { Askers } from '../domain/askers.ts';
import { formatInstant } from '../domain/instant.ts';
import type { AsOf, PurchaseEngine } from '../domain/purchase-engine.ts';
import type { Credential } from '../postgres/api-keys.ts';
import type { AnswerCache, FinishedAnswer } from './answer-cache.ts';
import { ApiError, unknownRoute } from './errors.ts';
import { conditional, entityTag } from './etag.ts';
import { writeExactly } from './exact-numbers.ts';
import { type Export, type ExportOptions, sendExport } from './export.ts';
import { writeWhole } from './formats/format.ts';
import {
  acceptedExportFormat,
  acceptedFormat,
  type ExportFormatName,
  type FormatName,
  formats,
} from './formats/negotiation.ts';
import { type AnswerTable, batchOf, type Table } from './formats/table.ts';
import { type FreshAnswers, readMinimumAsOf } from './minimum-as-of.ts';
import { cursorAfter, linkNextPage } from './next-page.ts';
import { readParameters } from './parameters.ts';
import { parseQueryString, queryStringOf } from './query-string.ts';
import type { Services } from './services.ts';
import { serializerSchema } from './wire.ts';

/** What a handler is told: its parameters, validated, and whom it answers. */
export type Call<Path, Query> = {
  readonly path: Path;
  readonly query: Query;
  /** From the key, and from nowhere else. */
  readonly organizationId: bigint;
  readonly credential: Credential;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Whose turn a question takes where it must wait. */
  readonly askers: Askers;
};

/** A route below /v1, as data: what registers it also describes it. */
export type Route<
  Path extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Response extends z.ZodType = z.ZodType,
> = {
  /** Below /v1, with parameters as `:name`. */
  readonly url: string;
  /** One line for the API's reference. */
  readonly summary: string;
  /** Beyond the specification; said so in the reference. */
  readonly isAddition?: boolean;
  readonly path: Path;
  readonly query: Query;
  readonly response: Response;
  /** Single-resource and aggregate responses carry an ETag (section 4.5); lists do not. */
  readonly etag: boolean;
} & (
  | {
      readonly isDated?: false;
      handle(call: Call<z.output<Path>, z.output<Query>>): Promise<z.output<Response>>;
    }
  | {
      /**
       * Answers say which instant they show. They depend on their parameters and on
       * what the engine answers from alone, and are remembered by these.
       */
      readonly isDated: true;
      /** Rejects where there is nothing to answer about; asked before each answer. */
      require?(call: Call<z.output<Path>, z.output<Query>>): Promise<void>;
      /**
       * Where the answer may be asked for in other formats than JSON, by `Accept` or by
       * the parameter `format`: how it reads as rows.
       */
      readonly table?: AnswerTable<z.output<Response>>;
      handle(call: Call<z.output<Path>, z.output<Query>>): Promise<AsOf<z.output<Response>>>;
    }
  | {
      /** Sends all rows there are, as a file, while they are read (export.ts). */
      readonly isExport: true;
      readonly isDated?: never;
      readonly name: string;
      readonly table: Table;
      open(
        call: Call<z.output<Path>, z.output<Query>>,
        ...opening: Parameters<Export['open']>
      ): Promise<void>;
    }
);

/** What a resource's file exports: its routes, over what they are served from. */
export type ResourceRoutes = (services: Services) => readonly Route[];

/** A route whose handler is checked against its own schemas. */
export function route<Path extends z.ZodType, Query extends z.ZodType, Response extends z.ZodType>(
  definition: Route<Path, Query, Response>,
): Route {
  return definition as unknown as Route;
}

type ServedFrom = {
  readonly purchases: PurchaseEngine;
  readonly answers: AnswerCache;
  readonly freshAnswers: FreshAnswers;
  readonly exports: ExportOptions;
};

/**
 * Registers a route. Parameters are read after the key, the rate limit and the
 * route have been checked: that is the order of refusals.
 */
export function serve(
  app: FastifyInstance,
  route: Route,
  { purchases, answers, freshAnswers, exports }: ServedFrom,
) {
  if ('isExport' in route) {
    serveExport(app, route, exports);
    return;
  }
  const { url, path, query, response, etag } = route;
  const table =
    route.isDated === true ? (route.table as AnswerTable<unknown> | undefined) : undefined;
  const finish = async (
    call: Call<unknown, unknown>,
    format: FormatName,
    reply: FastifyReply,
  ): Promise<FinishedAnswer> => {
    if (route.isDated !== true) throw new Error('only dated answers are finished ahead');
    const { answer, asOf } = await route.handle(call);
    const written =
      table === undefined || format === 'json'
        ? { body: writeExactly(serializerOf(reply)(answer)) }
        : writeRows(format, table, answer);
    const tag = etag ? entityTag(written.body) : null;
    return { ...written, entityTag: tag, asOf, next: cursorAfter(answer) };
  };
  const answerNow = async (
    call: Call<unknown, unknown>,
    format: FormatName,
    reply: FastifyReply,
  ): Promise<FinishedAnswer> => {
    const version = await purchases.version(call.organizationId);
    if (version === null) return finish(call, format, reply);
    const key = keyOf(version.name, url, format, call);
    const finished = await answers.answer(key, askerOf(call), call.signal, (signal, askers) =>
      finish({ ...call, signal, askers }, format, reply),
    );
    // The data may have been found to show everything up to a later instant since.
    return { ...finished, asOf: version.asOf > finished.asOf ? version.asOf : finished.asOf };
  };
  app.route({
    // Fastify's own HEAD routes would announce a body's length on a 304.
    method: ['GET', 'HEAD'],
    url,
    schema: { response: { 200: serializerSchema(response) } },
    handler: async (request, reply) => {
      const call = readCall(request, path, query);
      if (route.isDated !== true) {
        const answer = await route.handle(call);
        const next = cursorAfter(answer);
        if (next !== null) linkNextPage(request, reply, next);
        return answer;
      }
      const minimum = readMinimumAsOf(request);
      const format = table === undefined ? 'json' : formatOf(request, call);
      await route.require?.(call);
      const answer = () => answerNow(call, format, reply);
      const finished =
        minimum === null
          ? await answer()
          : await freshAnswers.atLeast(minimum, call.organizationId, request, reply, answer);
      reply
        .header('X-Data-As-Of', formatInstant(finished.asOf))
        .type(format === 'json' ? 'application/json; charset=utf-8' : formats[format].contentType);
      if (finished.hasMore !== undefined) reply.header('X-Has-More', String(finished.hasMore));
      if (finished.entityTag !== null) reply.header('ETag', finished.entityTag);
      if (finished.next !== null) linkNextPage(request, reply, finished.next);
      return finished.body;
    },
    onSend: async (request, reply, payload) => {
      // Errors repeat what a caller sent, which may look like one of our marks.
      if (reply.statusCode !== 200 || !isWhole(payload)) return payload;
      const isFinished = route.isDated === true || typeof payload !== 'string';
      const content = isFinished ? payload : writeExactly(payload);
      return etag ? conditional(request, reply, content) : content;
    },
  });
}

function serveExport(
  app: FastifyInstance,
  { url, path, query, name, table, open }: Extract<Route, { isExport: true }>,
  options: ExportOptions,
) {
  app.route({
    method: ['GET', 'HEAD'],
    url,
    handler: async (request, reply) => {
      const call = readCall(request, path, query);
      const { format } = call.query as { format?: ExportFormatName };
      const sent = formats[format ?? acceptedExportFormat(request.headers.accept)];
      const opened: Export = {
        format: sent,
        table,
        name,
        open: (take, signal) => open(call, take, signal),
      };
      return sendExport(request, reply, opened, options);
    },
  });
}

const isWhole = (payload: unknown): payload is string | Buffer =>
  typeof payload === 'string' || Buffer.isBuffer(payload);

/** What the parameter `format` says, for those who cannot set headers; `Accept` otherwise. */
function formatOf(request: FastifyRequest, { query }: Call<unknown, unknown>): FormatName {
  const { format } = query as { format?: FormatName };
  return format ?? acceptedFormat(request.headers.accept);
}

function writeRows(
  format: Exclude<FormatName, 'json'>,
  table: AnswerTable<unknown>,
  answer: unknown,
): Pick<FinishedAnswer, 'body' | 'hasMore'> {
  const { rows, hasMore } = table.read(answer);
  return { body: writeWhole(formats[format], table, batchOf(table, rows)), hasMore };
}

function readCall(
  request: FastifyRequest,
  path: z.ZodType,
  query: z.ZodType,
): Call<unknown, unknown> {
  const parameters = request.params as Record<string, string>;
  // The router takes `/customers/` for a customer whose id has no characters.
  if (Object.values(parameters).includes('')) throw unknownRoute(request);
  refuseBody(request);
  const { credential, signal } = request;
  return {
    path: readParameters(path, parameters),
    query: readParameters(query, parseQueryString(queryStringOf(request.raw.url))),
    organizationId: credential.organizationId,
    credential,
    signal,
    askers: new Askers(askerOf(request)),
  };
}

/** Keys ask for themselves, those of one organization too. */
const askerOf = ({ credential }: { readonly credential: Credential }): string =>
  `key ${credential.keyId}`;

/** Names an answer: the same question, however it was written, has the same one. */
function keyOf(
  version: string,
  url: string,
  format: FormatName,
  { organizationId, path, query }: Call<unknown, unknown>,
): string {
  const parameters = Object.entries({ ...(path as object), ...(query as object), format }).sort();
  return JSON.stringify([organizationId, version, url, parameters], (_name, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}

function serializerOf(reply: FastifyReply): (answer: unknown) => string {
  const serialize = reply.getSerializationFunction('200');
  if (serialize === undefined) throw new Error('the route has no serializer');
  return serialize as (answer: unknown) => string;
}

/** Operations take no request body (section 4). */
function refuseBody(request: FastifyRequest): void {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (encoding === undefined && (length === undefined || length === '0')) return;
  throw new ApiError('invalid_request', 'A GET request takes no body.');
}
