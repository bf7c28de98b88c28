import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { timeInRounds } from '../measure/rounds.ts';
import { pairedRatios, type Summary, summarize } from '../measure/statistics.ts';
import { spread } from '../report/tables.ts';
import type { Suite } from '../runner/suite.ts';
import { openEngines } from './engines.ts';

const zones = ['America/Sao_Paulo', 'America/New_York', 'Asia/Kolkata', 'Asia/Kathmandu'] as const;
const aim = 1.5;

const newest = BigInt(Date.UTC(2025, 10, 1)) * 1000n;
const questions: readonly { readonly name: string; readonly filters: PurchaseFilters }[] = [
  { name: 'by day', filters: {} },
  { name: 'of two months by day', filters: { createdSince: newest } },
  { name: 'of paid by day', filters: { paymentStatus: 'paid' } },
];

type Figures = {
  readonly question: string;
  readonly zone: string;
  readonly milliseconds: Summary;
  readonly timesUtc: Summary;
};

export const timeZones: Suite = {
  name: 'time-zones',
  description: 'statistics by day in time zones, against those in UTC',
  isQuick: true,
  async run(bench) {
    const { purchases = 200_000, seed = 42, rounds = 25 } = bench.options;
    const { duckdb, organizationId } = await openEngines(bench, purchases, seed);
    const figures: Figures[] = [];
    for (const { name, filters } of questions) {
      const ask = (timeZone?: string) => async () => {
        bench.scope.signal.throwIfAborted();
        const zone = timeZone === undefined ? {} : { timeZone };
        const query = { filters, groupBy: 'day', groupLimit: 10, ...zone } as const;
        await duckdb.stats(organizationId, query);
      };
      const contenders = Object.fromEntries(zones.map((zone) => [zone, ask(zone)]));
      const times = await timeInRounds({ UTC: ask(), ...contenders }, rounds);
      for (const [zone, { wall }] of Object.entries(times)) {
        const timesUtc = summarize(pairedRatios(wall, times.UTC.wall));
        figures.push({ question: name, zone, milliseconds: summarize(wall), timesUtc });
      }
    }
    const worst = Math.max(...figures.map(({ timesUtc }) => timesUtc.median));
    return {
      options: { purchases, seed, rounds },
      text: [
        {
          head: ['statistics', 'time zone', 'ms', 'times UTC'],
          rows: figures.map(({ question, zone, milliseconds, timesUtc }) => [
            question,
            zone,
            spread(milliseconds),
            spread(timesUtc, 2),
          ]),
        },
        `The greatest is ${worst.toFixed(2)}; the aim is ${aim} at most.`,
      ],
      plots: [
        {
          kind: 'bars',
          title: 'What a day in a time zone costs',
          note: 'Time of statistics by day over that of the same in UTC, round by round. To the right of 1 the zone takes longer.',
          unit: '×',
          scale: 'linear',
          baseline: 1,
          target: { label: `aim: ${aim} or less`, value: aim },
          bars: figures
            .filter(({ zone }) => zone !== 'UTC')
            .map(({ question, zone, timesUtc }) => ({
              label: `${question}, ${zone}`,
              value: timesUtc,
            })),
        },
      ],
      figures: { statistics: figures, worst, aim },
    };
  },
};
