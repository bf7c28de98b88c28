import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { encodeId, type IdentifiedResource, idPrefixes, idSpellings } from '../domain/public-id.ts';
import { queryRows } from '../duckdb/connection.ts';
import { fillTable } from './fill-table.ts';

/** A column of numbers of an attached file. */
export type NumberColumn = {
  readonly catalog: string;
  readonly table: string;
  readonly column: string;
};

/** What a column of numbers shows as public ids, in SQL, and what must be joined for that. */
export type IdSql = { readonly shown: Sql; readonly join: Sql };

const largestSpelled = BigInt(Number.MAX_SAFE_INTEGER);

/** Creates the table that `idSql` joins: how ids are spelled, by remainder. */
export async function createIdSpellings(connection: DuckDBConnection): Promise<void> {
  const rows = idSpellings().spellings.map(({ first, digits, filling }, remainder) => [
    BigInt(remainder),
    first,
    digits.join(''),
    // Two digits are taken at once.
    digits.flatMap((high) => digits.map((low) => high + low)).join(''),
    filling,
  ]);
  const columns = [
    'remainder bigint',
    'start varchar',
    'digits varchar',
    'pairs varchar',
    'filling varchar',
  ];
  await fillTable(connection, 'spelling', columns, [rows]);
}

/**
 * The public ids of a column: the same as `encodeId` gives, without leaving DuckDB. Beyond
 * what sqids takes as one number there are few, and JavaScript spells them.
 */
export async function idSql(
  connection: DuckDBConnection,
  resource: IdentifiedResource,
  { catalog, table: of, column }: NumberColumn,
): Promise<IdSql> {
  const number = sql`${raw(`${of}.${column}`)}`;
  const stored = raw(`${catalog}.${of}`);
  const table = `${resource}_spelling`;
  const { spellings } = idSpellings();
  const spelling = sql`join spelling as ${raw(table)} on ${raw(table)}.remainder = ${number} % ${raw(String(spellings.length))}`;
  const [greatest] = await queryRows(connection, sql`select max(${raw(column)}) from ${stored}`);
  const maximum = (greatest?.[0] ?? 0n) as bigint;
  const shown = spelled(
    resource,
    number,
    maximum < largestSpelled ? maximum : largestSpelled,
    table,
  );
  if (maximum <= largestSpelled) return { shown, join: spelling };

  const large = `large_${resource}`;
  const numbers = await queryRows(
    connection,
    sql`select distinct ${raw(column)} from ${stored} where ${raw(column)} > ${largestSpelled}`,
  );
  const rows = numbers.map(([id]) => [id as bigint, encodeId(resource, id as bigint)]);
  await fillTable(connection, large, ['number bigint', 'shown varchar'], [rows]);
  return {
    shown: sql`coalesce(${raw(large)}.shown, ${shown})`,
    join: sql`${spelling} left join ${raw(large)} on ${raw(large)}.number = ${number}`,
  };
}

function spelled(resource: IdentifiedResource, number: Sql, maximum: bigint, table: string): Sql {
  const { spellings, least } = idSpellings();
  const base = spellings.length - 1;
  const ofLength = (length: number): Sql => {
    const parts: Sql[] = [];
    let rest = length;
    if (length % 2 === 1) {
      rest -= 1;
      parts.push(charactersAt(number, sql`${raw(table)}.digits`, base, rest, 1));
    }
    for (; rest > 0; rest -= 2) {
      parts.push(charactersAt(number, sql`${raw(table)}.pairs`, base ** 2, rest / 2 - 1, 2));
    }
    // Where the least length is reached, nothing separates digits from filling.
    const filling = sql`substring(${raw(table)}.filling, 1, ${raw(String(least - length))})`;
    const prefix = raw(`'${idPrefixes[resource]}_'`);
    return sql`concat(${prefix}, ${raw(table)}.start, ${join(parts, ', ')}, ${length < least ? filling : raw("''")})`;
  };
  const cases: Sql[] = [];
  let length = 2;
  for (let from = BigInt(base); from <= maximum; from *= BigInt(base)) {
    cases.unshift(sql`when ${number} >= ${raw(String(from))} then ${ofLength(length)}`);
    length += 1;
  }
  return cases.length === 0 ? ofLength(1) : sql`case ${join(cases, ' ')} else ${ofLength(1)} end`;
}

/** Some characters of an ASCII text: those that stand for the number's digit at `place`. */
function charactersAt(number: Sql, text: Sql, base: number, place: number, width: number): Sql {
  const scaled =
    place === 0 ? number : sql`${number} // ${raw(String(BigInt(base) ** BigInt(place)))}`;
  return sql`substring(${text}, ((${scaled}) % ${raw(String(base))}) * ${raw(String(width))} + 1, ${raw(String(width))})`;
}
