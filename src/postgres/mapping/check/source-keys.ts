import pg from 'pg';
import type { Connection } from '../../connection/pool.ts';
import type { MappingSource } from '../mapping-definition.ts';
import { keysFrom } from '../trigger-function.ts';
import { attempt, error, type Finding, warning } from './finding.ts';
import { type NamedTable, whereSource } from './sources.ts';

const { escapeLiteral } = pg;

/** Rows of a source whose keys are tried. */
const triedRows = 100;

export type SourceKeys = {
  readonly source: MappingSource;
  /** With its schema, quoted. */
  readonly table: string;
  readonly findings: readonly Finding[];
  /** Whether the key can be evaluated. */
  readonly isUsable: boolean;
};

/** Evaluates the key of a source over rows of its table. */
export async function trySourceKeys(
  connection: Connection,
  source: MappingSource,
  table: NamedTable,
  keyType: string | undefined,
): Promise<SourceKeys> {
  const { view } = source;
  const tried = { source, table: table.name };
  const named = `The key ${source.key} of ${table.name} for ${view}`;
  const given = await attempt(connection, () =>
    connection.query<{ key: unknown }>(
      `select mapped_key as key ${keysFrom(source.key, table.name, `(select * from ${table.name} limit ${triedRows})`)}`,
    ),
  );
  if (given instanceof Error) {
    const message =
      given.code === '42501'
        ? `${named} cannot be tried: ${given.message}.`
        : `${named} fails: ${given.message}.`;
    const finding =
      given.code === '42501'
        ? warning(view, message, await grantSelect(connection, table))
        : error(
            view,
            message,
            `update mapping_sources set key = '${table.key ?? '…'}' ${whereSource(source)}`,
          );
    return { ...tried, findings: [finding], isUsable: false };
  }
  if (keyType === undefined) return { ...tried, findings: [], isUsable: false };
  const type = await typeName(connection, given.fields[0]?.dataTypeID ?? 0);
  const cast = await attempt(connection, () =>
    connection.query(
      `select count(mapped_key::text::${keyType})
       ${keysFrom(source.key, table.name, `(select * from ${table.name} limit ${triedRows})`)}
       where mapped_key is not null`,
    ),
  );
  const isFailing = cast instanceof Error;
  const findings: Finding[] = [];
  if (isFailing || kindOfType(type) !== kindOfType(keyType)) {
    const message = `${named} has the type ${type}, and ${view}.external_id ${keyType}`;
    const line = `update mapping_sources set key = ${escapeLiteral(`(${source.key})::${keyType}`)} ${whereSource(source)}`;
    findings.push(
      isFailing
        ? error(view, `${message}: ${cast.message}.`, line)
        : warning(view, `${message}.`, line),
    );
  }
  return { ...tried, findings, isUsable: !isFailing };
}

async function typeName(connection: Connection, oid: number): Promise<string> {
  const { rows } = await connection.query<{ name: string }>(
    'select format_type(coalesce(nullif(typbasetype, 0), oid), null) as name from pg_type where oid = $1',
    [oid],
  );
  return rows[0]?.name ?? 'unknown';
}

/** Types with the same text of the same value. */
const kindOfType = (type: string): string =>
  /^(smallint|integer|bigint)$/.test(type)
    ? 'integer'
    : /^(text|character varying|unknown)$/.test(type)
      ? 'text'
      : type;

async function grantSelect(connection: Connection, { name }: NamedTable): Promise<string> {
  const { rows } = await connection.query<{ role: string }>(
    'select quote_ident(current_user) as role',
  );
  return `grant select on ${name} to ${rows[0]?.role};`;
}
