import sql, { raw, type Sql } from 'sql-template-tag';
import { z } from 'zod';
import { encodeCursor, invalidCursor, placeIn } from '../../http/request/cursor.ts';
import { id, oneOf, type PageParameters, pageParameters } from '../../http/request/parameters.ts';
import { notFound } from '../../http/response/errors.ts';
import { listOf } from '../../http/response/wire.ts';
import { type HandlerResult, type Route, route } from '../../http/route.ts';
import type { Services } from '../../http/services.ts';
import { firstRow, withConnection } from '../../postgres/connection/pool.ts';
import { byUpdate, readPage } from '../../postgres/lists/keyset-list.ts';
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
  services: Services,
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
    handle: async ({ query, organizationId, signal }) =>
      listRecords(services, record, { organizationId, order }, query, signal),
  });
}

/** A single record, by its id in the URL. */
export function recordRoute<Fields extends Record<string, Field>>(
  services: Services,
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
    handle: async ({ path, organizationId, signal }) => {
      const statement = sql`
        select ${raw(selectList)}
        from ${raw(table)}
        where id = ${path[parameter]} and organization_id = ${organizationId}`;
      const row = await requireRow<RecordRow>(services, record, statement, signal);
      return { result: serializeRecord(record, row, services.publicAppUrl), asOf: undefined };
    },
  });
}

type RecordPage<Fields extends Record<string, Field>> = {
  data: RecordResponse<Fields>[];
  has_more: boolean;
};

/** A page of a list (section 2.13). Rejects if the cursor is no row of the organization. */
export async function listRecords<Fields extends Record<string, Field>>(
  services: Services,
  record: ResourceRecord<Fields>,
  list: Omit<KeysetList, 'table' | 'selectList' | 'limit' | 'startingAfter'>,
  query: PageParameters,
  signal: AbortSignal,
): Promise<HandlerResult<RecordPage<Fields>, undefined>> {
  const { table, selectList, resource } = record;
  const { limit, starting_after: cursor } = query;
  const startingAfter = cursor && { id: cursor.id, position: placeIn(cursor, list.order) };
  const page = await withConnection(
    services.database,
    (connection) =>
      readPage<RecordRow>(connection, { ...list, table, selectList, limit, startingAfter }),
    signal,
  );
  if (page === undefined) throw invalidCursor();
  const { rows, end } = page;
  const { column } = list.order;
  const next = end && encodeCursor(resource, end.id, { column, value: end.position });
  const data = rows.map((row) => serializeRecord(record, row, services.publicAppUrl));
  return { result: { data, has_more: next !== null }, asOf: undefined, next };
}

/** Rejects with not_found if the organization has no record with this id. */
export async function requireRecord(
  services: Services,
  record: Pick<ResourceRecord, 'resource' | 'table'>,
  organizationId: bigint,
  id: bigint,
  signal: AbortSignal,
): Promise<void> {
  const statement = sql`
    select id from ${raw(record.table)} where id = ${id} and organization_id = ${organizationId}`;
  await requireRow(services, record, statement, signal);
}

async function requireRow<Row extends { readonly id: bigint }>(
  { database }: Services,
  { resource }: Pick<ResourceRecord, 'resource'>,
  statement: Sql,
  signal: AbortSignal,
): Promise<Row> {
  const row = await withConnection(
    database,
    (connection) => firstRow<Row>(connection, statement),
    signal,
  );
  if (row === undefined) throw notFound(resource.replaceAll('_', ' '));
  return row;
}
