import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { earliestInstant, latestInstant, parseInstant } from '../../src/domain/instant.ts';
import { intervals, TooManyPeriodsError, weekStarts } from '../../src/domain/period.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../src/domain/purchase.ts';
import { type PurchaseEngine, UnknownCursorError } from '../../src/domain/purchase-engine.ts';
import {
  customerTypes,
  labelDimensions,
  optionalDimensions,
  type PurchaseFilters,
  type PurchaseListQuery,
  type PurchaseStatsQuery,
  type PurchaseTimeSeriesQuery,
  seriesDimensions,
  statsDimensions,
} from '../../src/domain/purchase-query.ts';
import {
  cohortIntervals,
  comparisons,
  isPeriodDimension,
  type PurchaseCohortsQuery,
  type PurchaseReportQuery,
  reportDimensions,
  reportMeasures,
  TooManyCohortsError,
} from '../../src/domain/purchase-report.ts';
import { readPurchaseStats, readPurchaseTimeSeries } from '../../src/domain/purchase-stats.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { type OpenEngine, openEngines } from '../engines/store.ts';
import {
  awkwardAmounts,
  awkwardCodes,
  awkwardInstants,
  awkwardLabels,
  awkwardPurchase,
} from '../support/awkward-purchases.ts';
import { test as it } from '../support/fixtures.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import type { TestWorkerOptions } from '../support/sync.ts';
import { mixtures } from './mixtures.ts';

/** Random queries of each test. */
const numRuns = Number(process.env.RANDOM_QUERIES ?? 4);

const day = 86_400_000_000n;

/** Byte for byte: bigints as digits, nulls as nulls, the order of everything kept. */
const asText = (answer: unknown): string =>
  JSON.stringify(answer, (_key, value) => (typeof value === 'bigint' ? `${value}n` : value));

/** Reports with bounds that all engines know: without `created_until`, a compared period ends now. */
function reports(
  filters: fc.Arbitrary<PurchaseFilters>,
  instant: fc.Arbitrary<bigint>,
): fc.Arbitrary<PurchaseReportQuery> {
  const near = instant.filter((bound) => bound > -2n * day && bound < latestInstant - day);
  const bounds = fc.record({ createdSince: near, createdUntil: near });
  const dimensions = fc
    .subarray([...reportDimensions], { maxLength: 3 })
    .filter((chosen) => chosen.filter(isPeriodDimension).length < 2);
  const shape = fc
    .tuple(fc.subarray([...reportMeasures], { minLength: 1 }), dimensions)
    .chain(([measures, groupBy]) =>
      fc.record({
        measures: fc.constant(measures),
        groupBy: fc.constant(groupBy),
        orderBy: fc.record({
          by: fc.constantFrom(...measures, ...groupBy),
          isDescending: fc.boolean(),
        }),
      }),
    );
  return fc
    .record(
      {
        filters,
        bounds: fc.option(bounds, { freq: 4, nil: {} }),
        shape,
        limit: fc.integer({ min: 1, max: 60 }),
        timeZone: fc.constantFrom('America/Sao_Paulo', 'Asia/Kathmandu', 'Australia/Lord_Howe'),
        weekStart: fc.constantFrom(...weekStarts),
        compareTo: fc.constantFrom(...comparisons),
      },
      { requiredKeys: ['filters', 'bounds', 'shape', 'limit'] },
    )
    .map(({ filters, bounds, shape, compareTo, ...rest }) => ({
      ...rest,
      ...shape,
      filters: { ...filters, ...bounds },
      compareTo: 'createdSince' in bounds ? compareTo : undefined,
    }));
}

const reportOf = (of: PurchaseEngine, organization: bigint, query: PurchaseReportQuery) =>
  of.report(organization, query).then(
    ({ result }) => asText(result),
    (error) => {
      if (error instanceof TooManyPeriodsError) return `too many: ${error.message}`;
      throw error;
    },
  );

describe.each(mixtures)(
  'the engines over ClickHouse and DuckDB and the Postgres engine, with purchases $name',
  ({ name, hasBase, prepare }) => {
    let stores: OpenEngine[];
    let postgres: PurchaseEngine;
    let organization: bigint;
    let customers: bigint[];
    let ids: bigint[];

    it.beforeAll(async ({ database, directory }) => {
      stores = await openEngines(database.pool, directory);
      organization = await addOrganization(database.pool);
      const other = await addOrganization(database.pool);
      customers = [];
      for (let count = 0; count < 12; count += 1) {
        customers.push(await addCustomer(database.pool, organization));
      }
      const otherCustomer = await addCustomer(database.pool, other);
      const foreign = awkwardPurchase([otherCustomer]);
      for (const values of fc.sample(foreign, { numRuns: 30, seed: 8 })) {
        await addPurchase(database.pool, other, values);
      }
      ids = [];
      const connection = await database.pool.connect();
      const duckdbDirectory = join(directory, 'duckdb');
      const syncWith = async (options: TestWorkerOptions) => {
        for (const { createWorker } of stores) {
          const worker = await createWorker({
            ...options,
            ...(hasBase ? { maxPurchasesWithoutBase: 0 } : {}),
          });
          await worker.once([organization, other]).finally(() => worker.close());
        }
      };
      await prepare({
        async add(count, seed) {
          for (const values of fc.sample(awkwardPurchase(customers), { numRuns: count, seed })) {
            ids.push(await addPurchase(database.pool, organization, values));
          }
        },
        query: (statement) => connection.query(statement),
        sync: () => syncWith({}),
        compact: () => syncWith({ loadChunkRows: 50, maxLogRecords: 0 }),
        other,
        otherCustomer,
      });
      connection.release(true);
      const folder = organizationDirectory(duckdbDirectory, organization);
      expect(readCurrent(folder, layoutVersion)?.base != null).toBe(hasBase);
      postgres = createPostgresEngine(database.pool);
      return async () => {
        for (const { close } of stores) await close();
      };
    });

    const several = (values: readonly string[]) =>
      fc.oneof(
        fc.constantFrom(...values).map((value) => [value]),
        fc.subarray([...values], { minLength: 1 }),
      );
    const label = several([...awkwardLabels, 'in no purchase']);
    const amount = fc.constantFrom(...awkwardAmounts.filter((cents) => cents >= 0n));
    const instant = fc
      .tuple(fc.constantFrom(...awkwardInstants), fc.constantFrom(-1n, 0n, 1n))
      .map(([text, shift]) => (parseInstant(text, 'down') as bigint) + shift)
      .filter((micros) => micros >= earliestInstant && micros <= latestInstant);
    const filters = () => {
      const every = {
        customerId: fc.constantFrom(...customers, 10n ** 15n),
        paymentStatuses: fc.subarray([...paymentStatuses], { minLength: 1 }),
        platforms: fc.subarray([...platforms], { minLength: 1 }),
        createdSince: instant,
        createdUntil: instant,
        minValueInCents: amount,
        maxValueInCents: amount,
        currency: several(['BRL', 'USD', 'brl', '']),
        without: fc.subarray([...optionalDimensions], { minLength: 1, maxLength: 2 }),
        coupon: several(awkwardCodes),
        not: fc.record(
          { utm_source: label, status: several(paymentStatuses), coupon: several(awkwardCodes) },
          { requiredKeys: ['utm_source'] },
        ),
        localTimes: fc.record({
          weekdays: fc.subarray([1, 2, 3, 4, 5, 6, 7], { minLength: 1 }),
          hours: fc.subarray([0, 1, 12, 22, 23], { minLength: 1 }),
          offsets: fc.constant([
            { offset: -3n * 3_600_000_000n, until: 0n },
            { offset: 5_400_000_000n, until: null },
          ]),
        }),
        ...(Object.fromEntries(trackingLabels.map((name) => [name, label])) as Record<
          (typeof trackingLabels)[number],
          typeof label
        >),
      };
      // Few purchases match more filters at a time.
      const chosen = fc.subarray(Object.keys(every), { maxLength: 3 });
      return fc
        .tuple(fc.record(every), chosen)
        .map(
          ([values, names]): PurchaseFilters =>
            Object.fromEntries(Object.entries(values).filter(([name]) => names.includes(name))),
        );
    };

    /** Filters of reports, which also tell first purchases. */
    const reportFilters = () =>
      fc
        .tuple(filters(), fc.constantFrom(undefined, undefined, ...customerTypes))
        .map(([others, customerType]): PurchaseFilters => ({ ...others, customerType }));

    it(`return the same statistics for random queries, ${name}`, async () => {
      const queries: fc.Arbitrary<PurchaseStatsQuery> = fc.record(
        {
          filters: reportFilters(),
          groupBy: fc.constantFrom(...statsDimensions),
          groupLimit: fc.integer({ min: 1, max: 50 }),
        },
        { requiredKeys: ['filters', 'groupLimit'] },
      );
      await fc.assert(
        fc.asyncProperty(queries, async (query) => {
          const exact = asText((await readPurchaseStats(postgres, organization, query)).result);
          for (const { engine } of stores) {
            expect(asText((await readPurchaseStats(engine, organization, query)).result)).toBe(
              exact,
            );
          }
        }),
        { numRuns },
      );
    });

    it(`return the same time series for random queries, ${name}`, async () => {
      // Most other bounds have too many periods between them.
      const near = (bound: bigint) => bound > -2n * day && bound < latestInstant - day;
      const bounds = fc.record({
        createdSince: instant.filter(near),
        createdUntil: instant.filter(near),
      });
      const bounded = fc.tuple(reportFilters(), fc.option(bounds, { freq: 8, nil: {} }));
      const queries: fc.Arbitrary<PurchaseTimeSeriesQuery> = fc.record(
        {
          filters: bounded.map(([others, between]) => ({ ...others, ...between })),
          interval: fc.constantFrom(...intervals),
          timeZone: fc.constantFrom('America/Sao_Paulo', 'Asia/Kathmandu', 'Australia/Lord_Howe'),
          weekStart: fc.constantFrom(...weekStarts),
          groupBy: fc.constantFrom(...seriesDimensions),
          groupLimit: fc.integer({ min: 1, max: 50 }),
        },
        { requiredKeys: ['filters', 'interval', 'groupLimit'] },
      );
      const seriesOf = async (of: PurchaseEngine, query: PurchaseTimeSeriesQuery) =>
        readPurchaseTimeSeries(of, organization, query).then(
          ({ result }) => asText(result),
          (error) => {
            if (error instanceof TooManyPeriodsError) return `too many: ${error.message}`;
            throw error;
          },
        );
      await fc.assert(
        fc.asyncProperty(queries, async (query) => {
          const exact = await seriesOf(postgres, query);
          for (const { engine } of stores) expect(await seriesOf(engine, query)).toBe(exact);
        }),
        { numRuns },
      );
    });

    it(`return the same report for random queries, ${name}`, async () => {
      await fc.assert(
        fc.asyncProperty(reports(reportFilters(), instant), async (query) => {
          const exact = await reportOf(postgres, organization, query);
          for (const { engine } of stores) {
            expect(await reportOf(engine, organization, query)).toBe(exact);
          }
        }),
        { numRuns },
      );
    });

    it(`return the same cohorts for random queries, ${name}`, async () => {
      const queries: fc.Arbitrary<PurchaseCohortsQuery> = fc.record(
        {
          filters: filters(),
          interval: fc.constantFrom(...cohortIntervals),
          timeZone: fc.constantFrom('America/Sao_Paulo', 'Asia/Kathmandu'),
          weekStart: fc.constantFrom(...weekStarts),
          groupBy: fc.constantFrom(...labelDimensions),
          periods: fc.integer({ min: 1, max: 60 }),
        },
        { requiredKeys: ['filters', 'interval', 'periods'] },
      );
      const cohortsOf = (of: PurchaseEngine, query: PurchaseCohortsQuery) =>
        of.cohorts(organization, query).then(
          ({ result }) => asText(result),
          (error) => {
            if (error instanceof TooManyCohortsError) return 'too many';
            throw error;
          },
        );
      await fc.assert(
        fc.asyncProperty(queries, async (query) => {
          const exact = await cohortsOf(postgres, query);
          for (const { engine } of stores) expect(await cohortsOf(engine, query)).toBe(exact);
        }),
        { numRuns: Math.ceil(numRuns / 2) },
      );
    });

    it(`return the same page for random queries and cursors, ${name}`, async () => {
      const queries: fc.Arbitrary<PurchaseListQuery> = fc.record(
        {
          filters: filters(),
          limit: fc.integer({ min: 1, max: 100 }),
          // No purchase has the last id.
          startingAfter: fc.constantFrom(...ids, 10n ** 15n),
        },
        { requiredKeys: ['filters', 'limit'] },
      );
      const pageOf = async (of: PurchaseEngine, query: PurchaseListQuery) =>
        of.list(organization, query).then(
          ({ result }) => asText(result),
          (error) => {
            if (error instanceof UnknownCursorError) return 'unknown cursor';
            throw error;
          },
        );
      await fc.assert(
        fc.asyncProperty(queries, async (query) => {
          const page = await pageOf(postgres, query);
          // A purchase that is gone keeps its place in the tested engines until the next compaction.
          const isGone = page === 'unknown cursor' && query.startingAfter !== 10n ** 15n;
          if (isGone) return;
          for (const { engine } of stores) expect(await pageOf(engine, query)).toBe(page);
        }),
        { numRuns },
      );
    });

    it(`return the same purchase for an id, ${name}`, { tags: ['slow'] }, async () => {
      for (const id of ids.filter((_, index) => index % 10 === 0)) {
        const exact = asText((await postgres.get(organization, id)).result);
        for (const { engine } of stores) {
          expect(asText((await engine.get(organization, id)).result)).toBe(exact);
        }
      }
    });
  },
);
