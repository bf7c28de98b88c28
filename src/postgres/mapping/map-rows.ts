import pg from 'pg';
import type { Connection } from '../connection/pool.ts';
import { isConflict } from './contention.ts';
import { deleteGone } from './delete-gone.ts';
import { drawingNumbers } from './drawn-numbers.ts';
import { failureText } from './failure-text.ts';
import {
  type Gone,
  type MapResult,
  mapStatement,
  type Range,
  rangeConditions,
  replaceFailure,
  type Selection,
} from './map-statement.ts';
import { keyTypeOf, type MappedView, type Mapping, numberTables } from './mapping-definition.ts';

/** What a mapping has changed. */
export type Mapped = {
  written: number;
  deleted: number;
  /** Rows that the service refuses, and among them those for which the statement fails since this call. */
  refused: number;
  failing: number;
};

export const nothingMapped = (): Mapped => ({
  written: 0,
  deleted: 0,
  refused: 0,
  failing: 0,
});

/**
 * If more rows fail alone in one transaction that did not fail before, the view is at fault, and the call
 * rejects.
 */
const maxFailing = 100;

/** Rows of one statement. */
const keysAtOnce = 5_000;

type MapOptions = {
  /** Deletes rows although they are many. */
  readonly acceptDeletions?: boolean;
  /** The begin of the comparison that has found the keys (deletions.ts). */
  readonly since?: Date | null;
};

/**
 * Maps the rows with these external ids of customers and of purchases, in the caller's transaction, which
 * has one snapshot. Rows that are gone from the views are deleted unless the guard holds them
 * (deletions.ts). A row that fails is recorded, and the others are mapped.
 */
export async function mapKeys(
  connection: Connection,
  mapping: Mapping,
  keys: Readonly<Partial<Record<MappedView, readonly string[]>>>,
  { acceptDeletions = false, since = null }: MapOptions = {},
): Promise<Mapped> {
  const mapped = nothingMapped();
  const customers = await mapEach(
    connection,
    mapping,
    'mapped_customers',
    keys.mapped_customers ?? [],
    mapped,
  );
  const changed = [...customers.added, ...customers.gone.map(({ key }) => key)];
  const purchases = new Set(keys.mapped_purchases);
  for (const key of await purchasesOf(connection, mapping, changed)) purchases.add(key);
  const { gone } = await mapEach(connection, mapping, 'mapped_purchases', [...purchases], mapped);
  mapped.deleted += await deleteGone(
    connection,
    mapping,
    { mapped_customers: customers.gone, mapped_purchases: gone },
    { acceptDeletions, since },
  );
  return mapped;
}

/**
 * Maps the next rows of a view, and returns those of the stored rows that the view lacks. A row that fails
 * is recorded, and the others are mapped.
 */
export async function mapRange(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  range: Range,
): Promise<
  Mapped & {
    readonly selected: number;
    /** The last external id that was compared. */
    readonly last: string | null;
    readonly isEnd: boolean;
    readonly gone: Gone;
  }
> {
  const mapped = nothingMapped();
  const found = await attempt(connection, mapping, view, range);
  if (found instanceof Error) {
    const { selected, stored } = await keysOf(connection, mapping, view, range);
    const keys = [...new Set([...selected, ...stored])];
    const { gone } = await mapEach(connection, mapping, view, keys, mapped);
    const last = selected.at(-1) ?? null;
    return {
      ...mapped,
      selected: selected.length,
      last,
      isEnd: selected.length < range.limit,
      gone,
    };
  }
  count(mapped, found);
  if (view === 'mapped_customers' && found.added.length > 0) {
    const purchases = await purchasesOf(connection, mapping, found.added);
    await mapEach(connection, mapping, 'mapped_purchases', purchases, mapped);
  }
  const { lastMissing, gone } = found;
  const selected = Number(found.selected);
  const isEnd = selected < range.limit && lastMissing === null;
  return { ...mapped, selected, last: lastMissing ?? found.last, isEnd, gone };
}

async function mapEach(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  keys: readonly string[],
  mapped: Mapped,
): Promise<{ readonly added: string[]; readonly gone: Gone[number][] }> {
  const all = { added: [] as string[], gone: [] as Gone[number][] };
  for (let begin = 0; begin < keys.length; begin += keysAtOnce) {
    const part = keys.slice(begin, begin + keysAtOnce);
    const { added, gone } = await mapOrIsolate(connection, mapping, view, part, mapped);
    all.added.push(...added);
    all.gone.push(...gone);
  }
  return all;
}

/** Leaves out keys that the view cannot have, and halves the rows until those that fail are alone. */
async function mapOrIsolate(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  keys: readonly string[],
  mapped: Mapped,
  areOfType = false,
): Promise<{ readonly added: readonly string[]; readonly gone: Gone }> {
  const found = await attempt(connection, mapping, view, { keys });
  if (!(found instanceof Error)) {
    count(mapped, found);
    await forgetFailures(connection, mapping, view, keys);
    return found;
  }
  if (!areOfType) {
    const possible = await withPossibleKeys(connection, mapping, view, keys);
    return possible.length === 0
      ? { added: [], gone: [] }
      : mapOrIsolate(connection, mapping, view, possible, mapped, true);
  }
  const [key] = keys;
  if (keys.length === 1 && key !== undefined) {
    mapped.refused += 1;
    if (await recordFailure(connection, view, key, found)) mapped.failing += 1;
    if (mapped.failing > maxFailing) throw found;
    return { added: [], gone: [] };
  }
  const middle = Math.ceil(keys.length / 2);
  const first = await mapOrIsolate(connection, mapping, view, keys.slice(0, middle), mapped, true);
  const second = await mapOrIsolate(connection, mapping, view, keys.slice(middle), mapped, true);
  return { added: [...first.added, ...second.added], gone: [...first.gone, ...second.gone] };
}

/** The keys that the type of the view's external ids has. Failures of the others are forgotten. */
async function withPossibleKeys(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  keys: readonly string[],
): Promise<readonly string[]> {
  const { rows } = await connection.query<{ possible: readonly string[] }>(
    'select keys_of_type($1, $2::regtype) as possible',
    [keys, keyTypeOf(mapping, view)],
  );
  const possible = rows[0]?.possible ?? [];
  if (possible.length < keys.length) {
    await connection.query(
      `delete from mapping_failures where view = $1 and external_id = any ($2::text[])
         and external_id <> all ($3::text[])`,
      [view, keys, possible],
    );
  }
  return possible;
}

/** The result, or the error of a row. Rejects with other errors. */
async function attempt(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  selection: Selection,
): Promise<MapResult | pg.DatabaseError> {
  try {
    return await drawingNumbers(connection, async () => {
      const { text, values } = mapStatement(mapping, view, selection);
      const { rows } = await connection.query<MapResult>(text, [...values]);
      return rows[0] as MapResult;
    });
  } catch (error) {
    if (!isRowError(error) || isConflict(error)) throw error;
    return error;
  }
}

/**
 * Data that cannot be converted, a violated constraint, an exception of a function of the view, or a value
 * that is too long for an index or too deep.
 */
const isRowError = (error: unknown): error is pg.DatabaseError =>
  error instanceof pg.DatabaseError && /^(21|22|23|54|P0)/.test(error.code ?? '');

const count = (mapped: Mapped, { written, refused }: MapResult): void => {
  mapped.written += Number(written);
  mapped.refused += Number(refused);
};

/** External ids of a range in the order of the view, and those that have a number. */
async function keysOf(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  range: Range,
): Promise<{ readonly selected: readonly string[]; readonly stored: readonly string[] }> {
  const { within, values } = rangeConditions(keyTypeOf(mapping, view), range);
  const { rows } = await connection.query<{ selected: string[]; stored: string[] }>(
    `with selected as materialized (
       select external_id from ${view} where ${within('external_id')} order by external_id limit $1
     )
     select array(select external_id::text from selected order by external_id) as selected,
       array(
         select external_id::text from ${numberTables[view]}
         where is_stored and ${within('external_id')} and ((select count(*) < $1 from selected)
           or external_id <= (select external_id from selected order by external_id desc limit 1))
       ) as stored`,
    values,
  );
  return rows[0] ?? { selected: [], stored: [] };
}

/** External ids of purchases that name these customers. */
async function purchasesOf(
  connection: Connection,
  mapping: Mapping,
  customers: readonly string[],
): Promise<string[]> {
  if (customers.length === 0) return [];
  const { rows } = await connection.query<{ key: string }>(
    `select external_id::text as key from ${numberTables.mapped_purchases}
     where is_stored and customer_external_id = any ($1::text[]::${keyTypeOf(mapping, 'mapped_customers')}[])`,
    [customers],
  );
  return rows.map(({ key }) => key);
}

/**
 * Removes failures of keys that the view does not have: their row is gone, or the source writes the key
 * differently, such as a uuid in capitals.
 */
async function forgetFailures(
  connection: Connection,
  mapping: Mapping,
  view: MappedView,
  keys: readonly string[],
): Promise<void> {
  await connection.query(
    `delete from mapping_failures where view = $1 and external_id = any ($2::text[])
       and external_id not in (
         select external_id::text from ${view}
         where external_id = any ($2::text[]::${keyTypeOf(mapping, view)}[]))`,
    [view, keys],
  );
}

/** Returns whether it is a new one. */
async function recordFailure(
  connection: Connection,
  view: MappedView,
  key: string,
  error: pg.DatabaseError,
): Promise<boolean> {
  const { column, constraint } = error;
  const reason = constraint === undefined ? failureText(error) : `violates ${constraint}`;
  const { rowCount } = await connection.query(
    `insert into mapping_failures as failure (view, external_id, column_name, reason)
     values ($1, $2, $3, $4) ${replaceFailure}`,
    [view, key, column ?? null, reason],
  );
  return rowCount !== 0;
}
