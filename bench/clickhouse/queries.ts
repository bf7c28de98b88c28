import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { type PaymentStatus, type Platform, trackingLabels } from '../../src/domain/purchase.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import {
  conditionsOf,
  type FilterConditions,
  type PurchaseFilters,
  type StatsDimension,
  statsDimensions,
} from '../../src/domain/purchase-query.ts';
import type { Database } from '../../src/postgres/pool.ts';
import type { Question } from '../queries/standard-queries.ts';

/** How many times as long as the service ClickHouse must take at least, by what is asked. */
export const targets = {
  'unfiltered statistics': 2.5,
  'filtered statistics': 1,
  'lists, one purchase': 1.5,
} as const;
export type QuestionKind = keyof typeof targets;

/** A question to an engine, and the same one to the API. */
export type PeerQuestion = Question & { readonly kind: QuestionKind; readonly url: string };

type Shop = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly duckdb: PurchaseEngine;
};

const microseconds = (date: string) => BigInt(Date.parse(date)) * 1000n;

/** Statistics by every dimension and of every filter, lists of every depth, one purchase. */
export async function peerQuestions(shop: Shop): Promise<PeerQuestion[]> {
  const deep = await deepPurchase(shop.database);
  const filtered = Object.entries(await filtersOf(shop, deep.customer_id));
  const { stats, list } = askersOf(shop.organizationId);
  return [
    ...[undefined, ...statsDimensions].map((by) => stats('unfiltered statistics', '', {}, by)),
    ...filtered.flatMap(([of, filters]) =>
      ([undefined, 'day', 'utm_campaign'] as const).map((by) =>
        stats('filtered statistics', ` of ${of}`, filters, by),
      ),
    ),
    list('first page', {}),
    list('first page of 100', {}, { limit: 100 }),
    list('deep page', {}, { startingAfter: deep.id }),
    ...filtered
      // Lists have no filter of tracking values (section 4.2).
      .filter(([, filters]) => trackingLabels.every((label) => filters[label] === undefined))
      .map(([of, filters]) => list(`first page of ${of}`, filters)),
    list('deep page of paid', { paymentStatus: 'paid' }, { startingAfter: deep.id }),
    {
      kind: 'lists, one purchase',
      name: 'one purchase',
      url: `/v1/purchases/${encodeId('purchase', deep.id)}`,
      ask: async (engine) => (await engine.get(shop.organizationId, deep.id)).result,
    },
  ];
}

function askersOf(organizationId: bigint) {
  return {
    stats: (
      kind: QuestionKind,
      of: string,
      filters: PurchaseFilters,
      groupBy: StatsDimension | undefined,
    ): PeerQuestion => {
      const query = { filters, groupLimit: 10, ...(groupBy === undefined ? {} : { groupBy }) };
      return {
        kind,
        name: `statistics${of}${groupBy === undefined ? '' : ` by ${groupBy}`}`,
        url: urlOf('purchases/stats', filters, groupBy === undefined ? {} : { group_by: groupBy }),
        ask: async (engine) => (await engine.stats(organizationId, query)).result,
      };
    },
    list: (
      name: string,
      filters: PurchaseFilters,
      page: { readonly limit?: number; readonly startingAfter?: bigint } = {},
    ): PeerQuestion => {
      const { limit = 25, startingAfter } = page;
      const after =
        startingAfter === undefined ? {} : { starting_after: encodeId('purchase', startingAfter) };
      return {
        kind: 'lists, one purchase',
        name,
        url: urlOf('purchases', filters, { limit: String(limit), ...after }),
        ask: async (engine) =>
          (await engine.list(organizationId, { filters, limit, ...page })).result,
      };
    },
  };
}

/** Where a third of the purchases is older. */
async function deepPurchase(database: Database): Promise<{ id: bigint; customer_id: bigint }> {
  const { rows } = await database.query<{ id: bigint; customer_id: bigint }>(
    `select id, customer_id from purchases order by created_at
     offset (select count(*) / 3 from purchases) limit 1`,
  );
  return rows[0] as { id: bigint; customer_id: bigint };
}

/** Each filter once, with values that the demo data is full of. */
async function filtersOf(
  { duckdb, organizationId }: Shop,
  customerId: bigint,
): Promise<Record<string, PurchaseFilters>> {
  const mostCommon = async (groupBy: StatsDimension): Promise<string> => {
    const query = { filters: {}, groupLimit: 2, groupBy };
    const { groups } = (await duckdb.stats(organizationId, query)).result;
    const key = groups.find((group) => group.key !== null)?.key;
    if (key == null) throw new Error(`no purchase has a ${groupBy}`);
    return key;
  };
  const status: PaymentStatus = 'paid';
  return {
    'one customer': { customerId },
    [status]: { paymentStatus: status },
    'one platform': { platform: (await mostCommon('platform')) as Platform },
    'one month': {
      createdSince: microseconds('2025-10-01T00:00:00Z'),
      createdUntil: microseconds('2025-11-01T00:00:00Z') - 1n,
    },
    'a range of values': { minValueInCents: 10_000n, maxValueInCents: 20_000n },
    'one utm_source': { utm_source: await mostCommon('utm_source') },
    'one utm_campaign': { utm_campaign: await mostCommon('utm_campaign') },
  };
}

const parameters: FilterConditions<readonly [string, string]> = {
  customerId: (id) => ['customer_id', encodeId('customer', id)],
  paymentStatus: (status) => ['status', status],
  platform: (platform) => ['platform', platform],
  createdSince: (instant) => ['created_since', formatInstant(instant)],
  createdUntil: (instant) => ['created_until', formatInstant(instant)],
  minValueInCents: (cents) => ['min_value_in_cents', String(cents)],
  maxValueInCents: (cents) => ['max_value_in_cents', String(cents)],
  utm_source: (value) => ['utm_source', value],
  utm_medium: (value) => ['utm_medium', value],
  utm_campaign: (value) => ['utm_campaign', value],
  utm_content: (value) => ['utm_content', value],
  utm_term: (value) => ['utm_term', value],
};

function urlOf(path: string, filters: PurchaseFilters, more: Record<string, string>): string {
  const query = new URLSearchParams({
    ...Object.fromEntries(conditionsOf(filters, parameters)),
    ...more,
  });
  return `/v1/${path}?${query}`;
}
