import type { z } from 'zod';
import type { ChangeFeed } from '../domain/purchase-changes.ts';
import type { AsOf, PurchaseReader, Versioned } from '../domain/purchase-engine.ts';
import type { Credential } from '../postgres/keys/api-keys.ts';
import type { SpreadsheetOptions } from './formats/csv.ts';
import type { ResponseTable } from './formats/table.ts';
import type { ExportOutput, ResourceServices } from './resource-services.ts';

/** The input of a handler: validated parameters, and the API key's organization. */
export type ApiRequest<Path, Query> = {
  readonly path: Path;
  readonly query: Query;
  /** The options of `csv_excel`; undefined for other formats. */
  readonly spreadsheet: SpreadsheetOptions | undefined;
  /** Identifies the route and the parameters' values, independent of their spelling. */
  readonly cacheKey: string;
  /** Of the API key. There is no other source of an organization. */
  readonly organizationId: bigint;
  readonly credential: Credential;
  /** Reads only the source of the API key. */
  readonly purchases: PurchaseReader;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** Identifies the API key in the queue of queries. */
  readonly client: string;
};

/** What a handler returns: the body, and the headers that it does not show. */
export type HandlerResult<Body, Instant extends bigint | undefined = bigint> = {
  readonly result: Body;
  /** The instant of the data; microseconds since 1970. */
  readonly asOf: Instant;
  /** The cursor of the next page; null if there is none. */
  readonly next?: string | null;
};

/** The same, of a version of the data. */
export type SnapshotResult<Body> = HandlerResult<Body> &
  Pick<Versioned<Body>, 'version'> & {
    /** The version may have another response from this instant on. */
    readonly changesAt?: bigint | undefined;
  };

/** A route below /v1, as data for the router and for the OpenAPI document. */
export type Route<
  Path extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Response extends z.ZodType = z.ZodType,
> = {
  /** Below /v1, with parameters as `:name`. */
  readonly url: string;
  /** One line for the reference. */
  readonly summary: string;
  /** What a reader of the summary would get wrong. */
  readonly description: string;
  /** Beyond the specification, and marked in the reference. */
  readonly isAddition?: boolean;
  readonly path: Path;
  readonly query: Query;
  readonly response: Response;
} & (
  | {
      readonly kind?: never;
      /** Responses carry `X-Data-As-Of`. */
      readonly showsInstant?: true;
      /** The response as rows, for formats other than JSON. */
      readonly table?: ResponseTable<z.output<Response>>;
      handle(
        request: ApiRequest<z.output<Path>, z.output<Query>>,
      ): Promise<HandlerResult<z.output<Response>, bigint | undefined>>;
    }
  | {
      /**
       * Responses carry `X-Data-As-Of`. They depend only on the parameters and on the version of
       * the data, so they are cached by both.
       */
      readonly kind: 'snapshot';
      /**
       * Objects have few of many optional properties, of which a serializer asks for each: JSON.stringify takes a
       * fifth of its time. Results have no property that the schema lacks.
       */
      readonly isSparse?: true;
      /** Runs before each response, cached or not. Rejects if the resource of the path is missing. */
      require?(request: ApiRequest<z.output<Path>, z.output<Query>>): Promise<void>;
      /** The response as rows, for formats other than JSON. */
      readonly table?: ResponseTable<z.output<Response>>;
      handle(
        request: ApiRequest<z.output<Path>, z.output<Query>>,
      ): Promise<SnapshotResult<z.output<Response>>>;
    }
  | {
      /** A page of changes, which is not cached. Responses carry `X-Data-As-Of`. */
      readonly kind: 'feed';
      readonly table: ResponseTable<z.output<Response>>;
      waitSeconds(query: z.output<Query>): number;
      readonly feed: ChangeFeed;
      /** `ended` ends the wait for a change. */
      handle(
        request: ApiRequest<z.output<Path>, z.output<Query>>,
        ended: AbortSignal | undefined,
      ): Promise<HandlerResult<z.output<Response>>>;
    }
  | {
      /** Streams all rows as a file (response/export.ts). */
      readonly kind: 'export';
      /** The file's name, without the instant and the extension. */
      readonly name: string;
      /** Reads the present rows of Postgres, so `X-Min-Data-As-Of` has no meaning. */
      readonly isLive?: true;
      /** Opens the file until `take` settles. The file is written as it is read. */
      open(
        request: ApiRequest<z.output<Path>, z.output<Query>>,
        output: ExportOutput,
        take: (file: AsOf<AsyncGenerator<Uint8Array, void>>, signal: AbortSignal) => Promise<void>,
        signal: AbortSignal,
      ): Promise<void>;
    }
);

/** The value that each file of src/resources exports. */
export type ResourceRoutes = (services: ResourceServices) => readonly Route[];

/** Checks the handler's types against the schemas. */
export function route<Path extends z.ZodType, Query extends z.ZodType, Response extends z.ZodType>(
  definition: Route<Path, Query, Response>,
): Route {
  return definition as unknown as Route;
}

export type SnapshotRoute = Extract<Route, { kind: 'snapshot' }>;
export type FeedRoute = Extract<Route, { kind: 'feed' }>;
export type ExportRoute = Extract<Route, { kind: 'export' }>;

/** Whether the route serves pages. */
export const isList = ({ query }: Route): boolean =>
  'starting_after' in (query as z.ZodObject).shape;

/** Whether a request may have a minimum instant: of purchases, which are published later than written. */
export const hasMinimumFreshness = (route: Route): boolean =>
  route.kind !== undefined && !(route.kind === 'export' && route.isLive);

/** Single-resource and aggregate responses carry an ETag (section 4.5); lists and exports do not. */
export const hasEtag = (route: Route): boolean => !isList(route) && route.kind !== 'export';
