import type { z } from 'zod';
import type { AsOf, PurchaseAnswers } from '../domain/purchase-engine.ts';
import type { Credential } from '../postgres/api-keys.ts';
import type { ExportFormatName } from './formats/negotiation.ts';
import type { AnswerTable } from './formats/table.ts';
import type { Export } from './response/export.ts';
import type { Services } from './services.ts';

/** What a handler is told: its parameters, validated, and whom it answers. */
export type Call<Path, Query> = {
  readonly path: Path;
  readonly query: Query;
  /** Names the route and the parameters' values, however they were written. */
  readonly question: string;
  /** From the key, and from nowhere else. */
  readonly organizationId: bigint;
  readonly credential: Credential;
  /** Answers from nothing but the data that the key belongs to. */
  readonly purchases: PurchaseAnswers;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Whose share of the engine a query takes: the key's. */
  readonly client: string;
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
      readonly showsSnapshot?: false;
      handle(call: Call<z.output<Path>, z.output<Query>>): Promise<z.output<Response>>;
    }
  | {
      /**
       * Answers say which instant they show. They depend on their parameters and on
       * what the engine answers from alone, and are remembered by these.
       */
      readonly showsSnapshot: true;
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
      /** Sends all rows there are, as a file, while they are read (response/export.ts). */
      readonly isExport: true;
      readonly showsSnapshot?: never;
      readonly name: string;
      open(
        call: Call<z.output<Path>, z.output<Query>>,
        format: ExportFormatName,
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

export type PlainRoute = Extract<Route, { showsSnapshot?: false; handle: unknown }>;
export type SnapshotRoute = Extract<Route, { showsSnapshot: true }>;
export type ExportRoute = Extract<Route, { isExport: true }>;
