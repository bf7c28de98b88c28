import { z } from 'zod';
import { readPurchaseStats } from '../../domain/purchase-stats.ts';
import type { ResponseTable } from '../../http/formats/table.ts';
import { named } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { readFilters } from './purchase-filters.ts';
import { purchaseStatsParameters } from './purchase-parameters.ts';
import {
  amountColumns,
  amounts,
  amountsSchema,
  currencyColumnOf,
  currencyColumns,
  currencyOf,
  totals,
  totalsSchema,
} from './purchase-totals.ts';

/** A group has no number of customers. */
const { customer_count: _, ...groupAmounts } = amountsSchema;
const groupSchema = z.object({ key: z.string().nullable(), ...groupAmounts });

/** Section 2.6. */
const statsSchema = named(
  'PurchaseStats',
  z.object({
    object: z.literal('purchase_stats'),
    ...totalsSchema,
    group_by: z.string().nullable(),
    groups: z.array(groupSchema),
    groups_truncated: z.boolean(),
  }),
);

/** The groups as rows; without `group_by`, one row of totals. The column `currency` is that of all rows. */
const statsTable: ResponseTable<z.output<typeof statsSchema>> = {
  columns: [
    { name: 'key', kind: 'label', absent: 'null' },
    ...amountColumns(groupAmounts),
    { name: 'customer_count', kind: 'integer', absent: 'left out' },
    ...currencyColumns,
  ],
  read: (stats) => ({
    rows:
      stats.group_by === null
        ? [{ ...stats, key: null }]
        : stats.groups.map((group) => ({ ...group, ...currencyOf(stats) })),
    hasMore: stats.groups_truncated,
    currencyColumn: currencyColumnOf(stats),
  }),
};

/** Section 4.4. */
export const purchaseStats: ResourceRoutes = () => [
  route({
    url: '/purchases/stats',
    summary: 'Totals over purchases, and a ranking by one dimension',
    description:
      'Without `status`, purchases of every payment status count, also abandoned and refunded ' +
      'ones: for sales, send `status=paid`. The totals cover all purchases that match, also ' +
      'those of groups beyond `group_limit`. The group `null` has the purchases without a ' +
      'value. If `mixed_currencies` is true, amounts are sums without a unit.',
    path: z.strictObject({}),
    query: purchaseStatsParameters,
    response: statsSchema,
    kind: 'snapshot',
    table: statsTable,
    handle: async (request) => {
      const { query, organizationId, purchases, signal, client } = request;
      const { group_by: groupBy, group_limit: groupLimit, timezone } = query;
      const timeZone = timezone === 'UTC' ? undefined : timezone;
      const filters = await readFilters(request);
      const statsQuery = { filters, groupBy, groupLimit, timeZone };
      const { result, ...shown } = await readPurchaseStats(
        purchases,
        organizationId,
        statsQuery,
        signal,
        client,
      );
      return {
        ...shown,
        result: {
          object: 'purchase_stats' as const,
          ...totals(result),
          group_by: groupBy ?? null,
          groups: result.groups.map((group) => ({ key: group.key, ...amounts(group) })),
          groups_truncated: result.groupsTruncated,
        },
      };
    },
  }),
];
