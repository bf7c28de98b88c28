import sql, { raw } from 'sql-template-tag';
import { z } from 'zod';
import { encodeCursor, invalidCursor, placeIn } from '../../http/request/cursor.ts';
import { id, oneOf, type PageParameters, pageParameters } from '../../http/request/parameters.ts';
import type { ResourceServices } from '../../http/resource-services.ts';
import { type ApiError, notFound } from '../../http/response/errors.ts';
import { listOf } from '../../http/response/wire.ts';
import { type ApiRequest, type HandlerResult, type Route, route } from '../../http/route.ts';
import { type Connection, firstRow } from '../../postgres/connection/pool.ts';
import { byUpdate, type KeysetPage, readPage } from '../../postgres/lists/keyset-list.ts';
import type { KeysetList, KeysetOrder } from '../../postgres/lists/keyset-statement.ts';
import {
  type Field,
  type RecordResponse,
  type RecordRow,
  type ResourceRecord,
  serializeRecord,
} from './record.ts';

type RouteDescription = {
  readonly url: string;
  readonly summary: string;
  readonly description: string;
};

/** A list of all records, without filters. Lists in the order of updates accept `sort=updated`. */
export function listRoute<Fields extends Record<string, Field>>(
  services: ResourceServices,
  record: ResourceRecord<Fields>,
  order: KeysetOrder,
  description: RouteDescription & { readonly isAddition?: boolean },
): Route {
  const sort = order === byUpdate ? { sort: oneOf(['updated']).optional() } : {};
  return route({
    ...description,
    path: z.strictObject({}),
    query: z.strictObject({ ...pageParameters(record.resource), ...sort }),
    response: listOf(record.schema),
    handle: async (request) => {
      const { query, organizationId } = request;
      const list = { organizationId, order };
      const page = await queryPostgres(services, request, (connection) =>
        readRecords(connection, record, list, query),
      );
      return serializePage(services, record, list, page);
    },
  });
}

/** A single record, by its id in the URL. */
export function recordRoute<Fields extends Record<string, Field>>(
  services: ResourceServices,
  record: ResourceRecord<Fields>,
  description: RouteDescription,
): Route {
  const { resource, table, selectList } = record;
  const parameter = `${resource}_id`;
  return route({
    ...description,
    url: `${description.url}/:${parameter}`,
    path: z.strictObject({ [parameter]: id(resource) }),
    query: z.strictObject({}),
    response: record.schema,
    handle: async (request) => {
      const { path, organizationId } = request;
      const statement = sql`
        select ${raw(selectList)}
        from ${raw(table)}
        where id = ${path[parameter]} and organization_id = ${organizationId}`;
      const row = await queryPostgres(services, request, (connection) =>
        firstRow<RecordRow>(connection, statement),
      );
      if (row === undefined) throw noRecord(record);
      return { result: serializeRecord(record, row, services.publicAppUrl), asOf: undefined };
    },
  });
}

/** Whose query it is: its organization and key take turns with others. */
type Requester = Pick<ApiRequest<unknown, unknown>, 'organizationId' | 'client' | 'signal'>;

/** Runs the statements of a request in the queue of queries. */
export const queryPostgres = <Result>(
  { postgres }: ResourceServices,
  { organizationId, client, signal }: Requester,
  query: (connection: Connection) => Promise<Result>,
): Promise<Result> => postgres.run({ organizationId, name: client }, signal, query);

/** Undefined if the cursor is no row of the organization. */
type RecordPage = KeysetPage<RecordRow> | undefined;

type RecordList = Omit<KeysetList, 'table' | 'selectList' | 'limit' | 'startingAfter'>;

export function readRecords(
  connection: Connection,
  { table, selectList }: ResourceRecord,
  list: RecordList,
  { limit, starting_after: cursor }: PageParameters,
): Promise<RecordPage> {
  const startingAfter = cursor && { id: cursor.id, place: placeIn(cursor, list.order) };
  return readPage<RecordRow>(connection, { ...list, table, selectList, limit, startingAfter });
}

type ListResponse<Fields extends Record<string, Field>> = {
  data: RecordResponse<Fields>[];
  has_more: boolean;
};

/** A page of a list (section 2.13). Throws if the cursor is no row of the organization. */
export function serializePage<Fields extends Record<string, Field>>(
  { publicAppUrl }: ResourceServices,
  record: ResourceRecord<Fields>,
  { order: { column } }: RecordList,
  page: RecordPage,
): HandlerResult<ListResponse<Fields>, undefined> {
  if (page === undefined) throw invalidCursor();
  const { rows, end } = page;
  const next = end && encodeCursor(record.resource, end.id, { column, value: end.place });
  const data = rows.map((row) => serializeRecord(record, row, publicAppUrl));
  return { result: { data, has_more: next !== null }, asOf: undefined, next };
}

/** Whether the organization has a record with this id. */
export async function hasRecord(
  connection: Connection,
  { table }: Pick<ResourceRecord, 'table'>,
  organizationId: bigint,
  id: bigint,
): Promise<boolean> {
  const statement = sql`
    select id from ${raw(table)} where id = ${id} and organization_id = ${organizationId}`;
  return (await firstRow(connection, statement)) !== undefined;
}

export const noRecord = ({ resource }: Pick<ResourceRecord, 'resource'>): ApiError =>
  notFound(resource.replaceAll('_', ' '));
