import sql, { raw, type Sql } from 'sql-template-tag';
import { invalidCursor } from '../http/request/parameters.ts';
import { notFound } from '../http/response/errors.ts';
import type { Services } from '../http/services.ts';
import { readPage } from '../postgres/keyset-list.ts';
import type { KeysetList } from '../postgres/keyset-statement.ts';
import { firstRow, withConnection } from '../postgres/pool.ts';
import {
  type Field,
  onTheWire,
  type RecordRow,
  type ResourceRecord,
  type Written,
} from './record.ts';

/** A page of a list (section 2.13). Rejects a cursor that is none of the organization's rows. */
export async function answerList<Fields extends Record<string, Field>>(
  services: Services,
  record: ResourceRecord<Fields>,
  list: Omit<KeysetList, 'table' | 'selectList' | 'limit' | 'startingAfter'>,
  query: { readonly limit: number; readonly starting_after?: bigint | undefined },
  signal: AbortSignal,
): Promise<{ data: Written<Fields>[]; has_more: boolean }> {
  const { table, selectList } = record;
  const { limit, starting_after: startingAfter } = query;
  const whole: KeysetList = { ...list, table, selectList, limit, startingAfter };
  const page = await withConnection(
    services.database,
    (connection) => readPage<RecordRow>(connection, whole),
    signal,
  );
  if (page === undefined) throw invalidCursor();
  return {
    data: page.rows.map((row) => onTheWire(record, row, services.publicAppUrl)),
    has_more: page.hasMore,
  };
}

/** One resource. Rejects what is not there, or another organization's, with not_found. */
export async function answerSingle<Fields extends Record<string, Field>>(
  services: Services,
  record: ResourceRecord<Fields>,
  organizationId: bigint,
  id: bigint,
  signal: AbortSignal,
): Promise<Written<Fields>> {
  const { resource, table, selectList } = record;
  const row = await findRow<RecordRow>(
    services,
    sql`
      select ${raw(selectList)}
      from ${raw(table)}
      where id = ${id} and organization_id = ${organizationId}`,
    signal,
  );
  if (row === undefined) throw notFound(resource.replaceAll('_', ' '));
  return onTheWire(record, row, services.publicAppUrl);
}

/** Rejects with not_found where the organization has no such row: what a list is about must be there. */
export async function requireRow(
  services: Services,
  { resource, table }: Pick<ResourceRecord, 'resource' | 'table'>,
  organizationId: bigint,
  id: bigint,
  signal: AbortSignal,
): Promise<void> {
  const row = await findRow(
    services,
    sql`select id from ${raw(table)} where id = ${id} and organization_id = ${organizationId}`,
    signal,
  );
  if (row === undefined) throw notFound(resource.replaceAll('_', ' '));
}

function findRow<Row extends { readonly id: bigint }>(
  { database }: Services,
  statement: Sql,
  signal: AbortSignal,
): Promise<Row | undefined> {
  return withConnection(database, (connection) => firstRow<Row>(connection, statement), signal);
}
