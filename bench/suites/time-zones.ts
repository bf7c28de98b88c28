import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { inRounds, timed, wall } from '../measure/rounds.ts';
import { ratioOf, summaryOf } from '../measure/statistics.ts';
import { spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { prepareShop } from '../setup/prepared-shops.ts';

const zones = ['America/Sao_Paulo', 'America/New_York', 'Asia/Kolkata', 'Asia/Kathmandu'];
const target = 1.5;

const queries: Readonly<Record<string, PurchaseFilters>> = {
  'by day': {},
  'of two months by day': { createdSince: BigInt(Date.UTC(2025, 10, 1)) * 1000n },
  'of paid by day': { paymentStatuses: ['paid'] },
};

export const timeZones = defineSuite({
  name: 'time-zones',
  description: 'statistics by day in time zones, against those in UTC',
  isQuick: true,
  defaults: { purchases: 200_000, seed: 42, rounds: 25 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const { shop, duckdb } = await prepareShop({ scope, server }, { purchases, seed });
    const figures = [];
    for (const [name, filters] of Object.entries(queries)) {
      const query = { filters, groupBy: 'day', groupLimit: 10 } as const;
      const stats = (zone: { readonly timeZone?: string }) =>
        timed(() => readPurchaseStats(duckdb, shop.organizationId, { ...query, ...zone }));
      const inZones = Object.fromEntries(zones.map((zone) => [zone, stats({ timeZone: zone })]));
      const tasks = { UTC: stats({}), ...inZones };
      const times = await inRounds(tasks, { rounds, signal: scope.signal });
      for (const [zone, ofZone] of Object.entries(times)) {
        const milliseconds = summaryOf(ofZone, wall);
        const timesUtc = ratioOf(ofZone, times.UTC, wall);
        figures.push({ query: name, zone, milliseconds, timesUtc });
      }
    }
    const worst = Math.max(...figures.map(({ timesUtc }) => timesUtc.median));
    return {
      text: [
        tableOf(figures, {
          statistics: ({ query }) => query,
          'time zone': ({ zone }) => zone,
          ms: ({ milliseconds }) => spread(milliseconds),
          'times UTC': ({ timesUtc }) => spread(timesUtc, 2),
        }),
        `The maximum is ${worst.toFixed(2)}. The target is at most ${target}.`,
      ],
      figures: { statistics: figures, worst, target },
    };
  },
});
