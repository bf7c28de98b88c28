import pg from 'pg';
import type { Connection } from '../../connection/pool.ts';
import { failureText } from '../failure-text.ts';
import type { MappingSource } from '../mapping-definition.ts';
import { keysFrom, mappedKey } from '../trigger-function.ts';
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
  role: string,
): Promise<SourceKeys> {
  const { view } = source;
  const tried = { source, table: table.name };
  const named = `The key ${source.key} of ${table.name} for ${view}`;
  const given = await attempt(connection, () =>
    connection.query<{ key: unknown }>(
      `select ${mappedKey} as key ${keysFrom(source.key, table.name, `(select * from ${table.name} limit ${triedRows})`)}`,
    ),
  );
  if (given instanceof Error) {
    const message =
      given.code === '42501'
        ? `${named} cannot be tried: ${given.message}.`
        : `${named} fails: ${failureText(given)}.`;
    const finding =
      given.code === '42501'
        ? warning(view, message, `grant select on ${table.name} to ${role};`)
        : error(
            view,
            message,
            `update mapping_sources set key = '${table.key ?? '…'}' ${whereSource(source)}`,
          );
    return { ...tried, findings: [finding], isUsable: false };
  }
  const expression = await virtualExpression(connection, table, source.key);
  if (expression !== null) {
    const message = `${named} is a virtual generated column, which triggers cannot read.`;
    const line = `update mapping_sources set key = ${escapeLiteral(expression)} ${whereSource(source)}`;
    return { ...tried, findings: [error(view, message, line)], isUsable: false };
  }
  if (keyType === undefined) return { ...tried, findings: [], isUsable: false };
  const type = await typeName(connection, given.fields[0]?.dataTypeID ?? 0);
  const cast = await castKeys(connection, source, table, keyType);
  const findings: Finding[] = [];
  // Other keys are those of no row of the view: a cast would fail for them.
  const isPartial = cast.possible > 0 && cast.possible < cast.keys;
  if (cast.failure !== null || (!isPartial && kindOfType(type) !== kindOfType(keyType))) {
    const message = `${named} has the type ${type}, and ${view}.external_id ${keyType}`;
    findings.push(
      cast.failure === null
        ? warning(
            view,
            `${message}.`,
            `update mapping_sources set key = ${escapeLiteral(`(${source.key})::${keyType}`)} ${whereSource(source)}`,
          )
        : error(
            view,
            `${message}: ${cast.failure}.`,
            `update mapping_sources set key = '…' ${whereSource(source)}`,
          ),
    );
  }
  return { ...tried, findings, isUsable: cast.failure === null };
}

/** Rows that are tried if none of the first ones has a key that the view can have. */
const maxTriedRows = 10_000;

/** The keys of the first rows, how many of them the view can have, and why it can have none. */
async function castKeys(
  connection: Connection,
  source: MappingSource,
  { name }: NamedTable,
  keyType: string,
): Promise<{
  readonly keys: number;
  readonly possible: number;
  readonly failure: string | null;
}> {
  for (const limit of [triedRows, maxTriedRows]) {
    const read = await attempt(connection, () =>
      connection.query<{
        keys: readonly string[];
        possible: readonly string[];
      }>(
        `select array_agg(key) as keys, keys_of_type(array_agg(key), $1::regtype) as possible
       from (select distinct ${mappedKey}::text as key
         ${keysFrom(source.key, name, `(select * from ${name} limit ${limit})`)}
         where ${mappedKey} is not null) as keys`,
        [keyType],
      ),
    );
    // A later row may fail, which is a finding of the view.
    if (read instanceof Error) break;
    const { keys, possible } = read.rows[0] ?? {};
    if (keys == null || keys[0] === undefined) return { keys: 0, possible: 0, failure: null };
    if (possible != null && possible.length > 0) {
      return { keys: keys.length, possible: possible.length, failure: null };
    }
    if (limit < maxTriedRows) continue;
    const cast = await attempt(connection, () =>
      connection.query(`select $1::text::${keyType}`, [keys[0]]),
    );
    return {
      keys: keys.length,
      possible: 0,
      failure: cast instanceof Error ? failureText(cast) : null,
    };
  }
  return { keys: 0, possible: 0, failure: null };
}

/** The expression of a key that is a virtual generated column (Postgres 18); null if it is none. */
async function virtualExpression(
  connection: Connection,
  { oid }: NamedTable,
  key: string,
): Promise<string | null> {
  const { rows } = await connection.query<{ expression: string }>(
    `select pg_get_expr(adbin, adrelid) as expression
     from pg_attribute join pg_attrdef on adrelid = attrelid and adnum = attnum
     where attrelid = $1::oid and attgenerated = 'v' and (quote_ident(attname) = $2 or attname = lower($2))`,
    [oid, key.trim()],
  );
  return rows[0]?.expression ?? null;
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
