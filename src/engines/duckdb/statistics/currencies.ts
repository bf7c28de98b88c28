import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseTotals } from '../../../domain/purchase-engine.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { labelKey, noLabel } from '../../../purchase-store/format/layout.ts';
import { groupedPurchases, signedCents } from '../../../purchase-store/format/relations.ts';
import type { Generation, SumsByCurrency } from '../serving/generation.ts';

/** The least and the greatest key of a currency among some purchases; null if none has one. */
type CurrencyKeys = { readonly least: number; readonly greatest: number } | null;

/**
 * Currencies with this key and all greater ones have one sum, under this key: the column is free text, so sums of
 * each currency would take memory without a bound.
 */
const otherCurrencies = ({ maxStoredCurrencies }: Shortcuts): number => maxStoredCurrencies + 1;

/**
 * The sums of all purchases. A base is read once, for all generations that share it. Each
 * generation adds the signed rows of its delta.
 */
export async function sumsByCurrency(
  connection: DuckDBConnection,
  generation: Generation,
  shortcuts: Shortcuts,
): Promise<SumsByCurrency> {
  const { catalogs, ofBase } = generation;
  const others = otherCurrencies(shortcuts);
  ofBase.sums ??= await readSums(
    connection,
    sumsOf(`${catalogs.base}.purchase`, 'count(*)', raw('purchase_value_in_cents'), others),
  );
  generation.sums ??= add(
    ofBase.sums,
    await readSums(
      connection,
      sumsOf(`${catalogs.delta}.change`, 'sum(sign)', signedCents, others),
    ),
  );
  return generation.sums;
}

/**
 * The currencies of any `count` purchases, if the sums of all purchases leave only one answer:
 * more purchases than those without a currency have one, and still more have several.
 */
export function currenciesOfAny(
  sums: SumsByCurrency,
  count: bigint,
  shortcuts: Shortcuts,
): CurrencyKeys | undefined {
  const withoutCurrency = sums.get(noLabel)?.purchaseCount ?? 0n;
  if (shortcuts.maxStoredCurrencies === 0 || count <= withoutCurrency) return undefined;
  const keys = currencyKeys(sums);
  const counts = keys.map((key) => sums.get(key)?.purchaseCount ?? 0n);
  const areSeveral = counts.every((ofCurrency) => count > withoutCurrency + ofCurrency);
  return keys.length === 1 || areSeveral ? currenciesOfAll(sums, shortcuts) : undefined;
}

/** Undefined if all are among `otherCurrencies`, which may be one or several. */
export function currenciesOfAll(
  sums: SumsByCurrency,
  shortcuts: Shortcuts,
): CurrencyKeys | undefined {
  const keys = currencyKeys(sums);
  if (keys.length === 0) return null;
  const least = Math.min(...keys);
  return least === otherCurrencies(shortcuts) ? undefined : { least, greatest: Math.max(...keys) };
}

/** Reads the least and the greatest currency key of all purchases. */
export async function readCurrencies(
  connection: DuckDBConnection,
  { catalogs }: Generation,
): Promise<CurrencyKeys> {
  const key = raw(labelKey('currency'));
  const hasCurrency = sql`${key} <> ${raw(String(noLabel))}`;
  const [row] = await queryRows(
    connection,
    sql`select min(key), max(key) from ${groupedPurchases(catalogs, hasCurrency, { key })}`,
  );
  const [least, greatest] = row as [number | null, number | null];
  return least === null || greatest === null ? null : { least, greatest };
}

const currencyKeys = (sums: SumsByCurrency): number[] =>
  [...sums.keys()].filter((key) => key !== noLabel);

export async function nameCurrencies(
  connection: DuckDBConnection,
  { labels }: Generation,
  keys: CurrencyKeys,
): Promise<Pick<PurchaseTotals, 'currency' | 'mixedCurrencies'>> {
  if (keys === null) return { currency: null, mixedCurrencies: false };
  if (keys.least !== keys.greatest) return { currency: null, mixedCurrencies: true };
  const nameOf = await labels.lookUp(connection, new Map([['currency', new Set([keys.least])]]));
  return { currency: nameOf('currency', keys.least), mixedCurrencies: false };
}

/** Selects count and revenue of a table's rows by currency. DuckDB groups the keys by direct addressing. */
const sumsOf = (table: string, count: string, cents: Sql, others: number) =>
  sql`
    select least(key, ${raw(String(others))}), sum(purchases)::bigint, sum(cents)
    from (
      select ${raw(labelKey('currency'))} as key, ${raw(count)} as purchases, sum(${cents}) as cents
      from ${raw(table)} group by 1
    )
    group by 1`;

async function readSums(connection: DuckDBConnection, statement: Sql): Promise<SumsByCurrency> {
  const rows = await queryRows(connection, statement);
  return new Map(
    rows.map(([key, purchaseCount, revenueInCents]) => [
      key as number,
      { purchaseCount: purchaseCount as bigint, revenueInCents: revenueInCents as bigint },
    ]),
  );
}

/** Leaves out currencies that no purchase has. */
function add(sums: SumsByCurrency, changes: SumsByCurrency): SumsByCurrency {
  const all = new Map(sums);
  for (const [key, { purchaseCount, revenueInCents }] of changes) {
    const before = sums.get(key);
    all.set(key, {
      purchaseCount: purchaseCount + (before?.purchaseCount ?? 0n),
      revenueInCents: revenueInCents + (before?.revenueInCents ?? 0n),
    });
  }
  return new Map([...all].filter(([, { purchaseCount }]) => purchaseCount > 0n));
}
