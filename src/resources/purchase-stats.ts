import { z } from 'zod';
import { averageTicket } from '../domain/purchase-engine.ts';
import type { AnswerTable } from '../http/formats/table.ts';
import { count, integer, named, sum } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import { filtersFrom, purchaseStatsParameters } from './purchase-parameters.ts';

const groupSchema = z.object({
  key: z.string().nullable(),
  purchase_count: count(),
  revenue_in_cents: sum(),
  average_ticket_in_cents: integer(),
});

/** Section 2.6. */
const statsSchema = named(
  'PurchaseStats',
  z.object({
    object: z.literal('purchase_stats'),
    purchase_count: count(),
    customer_count: count(),
    revenue_in_cents: sum(),
    average_ticket_in_cents: integer(),
    currency: z.string().nullable(),
    mixed_currencies: z.boolean(),
    group_by: z.string().nullable(),
    groups: z.array(groupSchema),
    groups_truncated: z.boolean(),
  }),
);

/** The ranking as rows; without one, the totals as its only row. */
const statsTable: AnswerTable<z.output<typeof statsSchema>> = {
  columns: [
    { name: 'key', kind: 'label', absent: 'null' },
    { name: 'purchase_count', kind: 'integer', absent: 'never' },
    { name: 'revenue_in_cents', kind: 'integer', absent: 'never' },
    { name: 'average_ticket_in_cents', kind: 'integer', absent: 'never' },
  ],
  read: (stats) => ({
    rows: stats.group_by === null ? [{ ...stats, key: null }] : stats.groups,
    hasMore: stats.groups_truncated,
  }),
};

/** Section 4.4. */
export function purchaseStats(): readonly Route[] {
  return [
    route({
      url: '/purchases/stats',
      summary: 'Totals over purchases, and a ranking by one dimension',
      path: z.strictObject({}),
      query: purchaseStatsParameters,
      response: statsSchema,
      etag: true,
      showsSnapshot: true,
      table: statsTable,
      handle: async ({ query, organizationId, purchases, signal, client }) => {
        const { group_by: groupBy, group_limit: groupLimit, timezone: timeZone } = query;
        const question = {
          filters: filtersFrom(query),
          groupLimit,
          ...(groupBy === undefined ? {} : { groupBy }),
          ...(timeZone === 'UTC' ? {} : { timeZone }),
        };
        const { answer: stats, asOf } = await purchases.stats(
          organizationId,
          question,
          signal,
          client,
        );
        const answer = {
          object: 'purchase_stats' as const,
          ...amounts(stats),
          customer_count: stats.customerCount,
          currency: stats.currency,
          mixed_currencies: stats.mixedCurrencies,
          group_by: groupBy ?? null,
          groups: stats.groups.map((group) => ({ key: group.key, ...amounts(group) })),
          groups_truncated: stats.groupsTruncated,
        };
        return { answer, asOf };
      },
    }),
  ];
}

function amounts(of: { readonly purchaseCount: bigint; readonly revenueInCents: bigint }) {
  return {
    purchase_count: of.purchaseCount,
    revenue_in_cents: of.revenueInCents,
    average_ticket_in_cents: averageTicket(of.revenueInCents, of.purchaseCount),
  };
}
