import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { type Currencies, noCurrency } from '../../../domain/purchase-report.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import {
  firstKey,
  labelDictionary,
  labelKey,
  noLabel,
} from '../../../purchase-store/format/layout.ts';
import type { Generation } from '../serving/generation.ts';

const dictionary = labelDictionary('currency');
/** The column is free text: the purchases of more currencies are not counted. */
const maxCurrencies = 100;

/**
 * The currencies of any `count` purchases, if the purchases of each currency leave only one answer: more
 * purchases than those without a currency have one, and still more have several. Counts of the base, and all changes,
 * are at least the present ones.
 */
export async function knownCurrencies(
  connection: DuckDBConnection,
  generation: Generation,
  count: bigint,
): Promise<Currencies | undefined> {
  const { labels, keyCounts, ofBase, changes } = generation;
  const currencies = keyCounts(dictionary) - 1;
  if (currencies === 0) return noCurrency;
  if (currencies > maxCurrencies) return undefined;
  ofBase.currencies ??= await countByCurrency(connection, generation);
  const ofBaseKey = ofBase.currencies;
  const most = (key: number) => (ofBaseKey.get(key) ?? 0) + changes;
  if (count <= most(noLabel)) return undefined;
  const keys = Array.from({ length: currencies }, (_, index) => index + firstKey(dictionary));
  if (currencies === 1) {
    const nameOf = await labels.lookUp(connection, new Map([['currency', new Set(keys)]]));
    return { currency: nameOf('currency', firstKey(dictionary)), mixedCurrencies: false };
  }
  const areSeveral = keys.every((key) => count > most(noLabel) + most(key));
  return areSeveral ? { currency: null, mixedCurrencies: true } : undefined;
}

async function countByCurrency(
  connection: DuckDBConnection,
  { catalogs }: Generation,
): Promise<ReadonlyMap<number, number>> {
  const rows = await queryRows(
    connection,
    sql`
      select ${raw(labelKey('currency'))}, count(*) from ${raw(catalogs.base)}.purchase
      group by 1`,
  );
  return new Map(rows.map(([key, count]) => [key as number, Number(count)]));
}
