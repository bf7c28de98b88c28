import { grouped } from '../../domain/grouped.ts';
import { averageTicket } from '../../domain/purchase-engine.ts';
import type { ReportMeasure, ReportValues } from '../../domain/purchase-report.ts';
import { type Order, orderedStatement } from './ordered-statement.ts';
import type { ReportRows, ReportSource } from './source.ts';
import { columnsOf, hasOneRowPerGroup, type Read, type SumName } from './statement.ts';

/** Sums by their names. */
export type Values = { readonly [Name in SumName]?: bigint };

/** A combination of dimensions, and its sums on each side; without purchases, a side has none. */
export type Group = {
  /** Labels are texts, periods numbers of rows, or keys of periods without a comparison. Null: no value. */
  readonly keys: readonly unknown[];
  readonly sides: Values[];
};

const add = (one: Values, other: Values): Values => {
  const sum: { [Name in SumName]?: bigint } = { ...one };
  for (const [name, value] of Object.entries(other) as [SumName, bigint][]) {
    sum[name] = (sum[name] ?? 0n) + value;
  }
  return sum;
};

/** The sums of all groups. */
export const sumOfGroups = (groups: readonly Group[], side: number): Values =>
  groups.reduce<Values>((sum, { sides }) => add(sum, sides[side] ?? {}), {});

/** All groups of each list of reads. A list has a read for each side. */
export async function readGroups(
  source: ReportSource,
  lists: readonly (readonly Read[])[],
): Promise<Group[][]> {
  const reads = lists.flat();
  if (reads.every(({ side }) => side.parts.length === 0)) return lists.map(() => []);
  const rows = await source.readAll(reads);
  const { dimensions, sums } = columnsOf(reads);
  const ofReads = grouped(rows, ([position]) => Number(position));
  let position = 0;
  const all: Group[][] = [];
  // One after the other: two statements at once on one connection may use one prepared statement, which crashes DuckDB.
  for (const list of lists) {
    const count = list[0]?.side.dimensions.length ?? 0;
    const groupOf = (row: ReportRows[number], side: number): Group => {
      const sides = Array.from({ length: side + 1 }, (): Values => ({}));
      sides[side] = valuesOf(sums, row.slice(1 + dimensions));
      return { keys: row.slice(1, 1 + count), sides };
    };
    const groups: Group[] = [];
    for (const side of list.keys()) {
      for (const row of ofReads.get(position) ?? []) groups.push(groupOf(row, side));
      position += 1;
    }
    all.push(await withTexts(list, hasOneRowPerGroup(list) ? groups : addedUp(groups)));
  }
  return all;
}

/** The groups with the sums of those that have the same keys. */
function addedUp(groups: readonly Group[]): Group[] {
  const all = new Map<string, Group>();
  for (const { keys, sides } of groups) {
    const id = keys.map(idOf).join(' ');
    const known = all.get(id) ?? { keys, sides: [] };
    for (const [side, values] of sides.entries()) {
      known.sides[side] = add(known.sides[side] ?? {}, values);
    }
    all.set(id, known);
  }
  return [...all.values()];
}

const valuesOf = (names: readonly SumName[], values: readonly unknown[]): Values => {
  const named: { [Name in SumName]?: bigint } = {};
  for (const [each, name] of names.entries()) {
    const value = values[each];
    if (value != null) named[name] = BigInt(value as bigint);
  }
  return named;
};

const idOf = (key: unknown): string =>
  key === null ? '-' : `${String(key).length}:${String(key)}`;

/** The groups that have purchases, with the texts of their labels. */
async function withTexts([read]: readonly Read[], groups: readonly Group[]): Promise<Group[]> {
  const counted = groups.filter(({ keys, sides }) =>
    keys.length === 0 ? true : sides.some(({ purchase_count = 0n }) => purchase_count > 0n),
  );
  const texts: (((value: number) => string | null) | undefined)[] = [];
  for (const [each, { textsOf }] of (read?.side.dimensions ?? []).entries()) {
    texts.push(await textsOf?.(new Set(counted.map(({ keys }) => Number(keys[each])))));
  }
  return counted.map(({ keys, sides }) => ({
    keys: keys.map((key, each) => {
      const textOf = texts[each];
      return textOf === undefined ? key : textOf(Number(key));
    }),
    sides,
  }));
}

/** The first groups in this order, which SQL sorts. */
export async function readFirstGroups(
  source: ReportSource,
  reads: readonly Read[],
  orders: readonly Order[] | null,
  limit: number,
): Promise<Group[]> {
  if (reads.every(({ side }) => side.parts.length === 0)) return [];
  const rows = await source.query(orderedStatement(source.dialect, reads, orders, limit));
  const { dimensions, sums } = columnsOf(reads);
  return rows.map((row) => ({
    keys: row.slice(0, dimensions),
    sides: reads.map((_, side) => valuesOf(sums, row.slice(dimensions + side * sums.length))),
  }));
}

export const measuresOf = (measures: readonly ReportMeasure[], values: Values): ReportValues =>
  measures.map((measure) => measureOf(measure, values));

const measureOf = (measure: ReportMeasure, values: Values): bigint =>
  measure === 'average_ticket_in_cents'
    ? averageTicket(values.revenue_in_cents ?? 0n, values.purchase_count ?? 0n)
    : (values[measure] ?? 0n);

/** Sorts groups as `orderedStatement` does. */
export function inOrder(groups: readonly Group[], orders: readonly Order[]): Group[] {
  const compareKeys = (one: Group, other: Group): number => {
    for (const [each, key] of one.keys.entries()) {
      const compared = compareValues(key, other.keys[each]);
      if (compared !== 0) return compared;
    }
    return 0;
  };
  return groups.toSorted((one, other) => {
    for (const { by, isDescending } of orders) {
      const [value, another] = [one, other].map(({ keys, sides: [own = {}] }) =>
        typeof by === 'number' ? keys[by] : measureOf(by, own),
      );
      const compared = compareValues(value, another);
      const isReversed = isDescending && value !== null && another !== null;
      if (compared !== 0) return isReversed ? -compared : compared;
    }
    return compareKeys(one, other);
  });
}

/** Null is last. */
function compareValues(one: unknown, other: unknown): number {
  if (one === other) return 0;
  if (one === null) return 1;
  if (other === null) return -1;
  if (typeof one === 'string') return compareTexts(one, other as string);
  return (one as bigint) < (other as bigint) ? -1 : 1;
}

/** In the order of their bytes in UTF-8. */
const compareTexts = (one: string, other: string): number =>
  Buffer.compare(Buffer.from(one), Buffer.from(other));
