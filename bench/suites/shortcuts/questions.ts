import type { PurchaseEngine } from '../../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../../src/domain/purchase-query.ts';
import type { PurchaseReportQuery, ReportMeasure } from '../../../src/domain/purchase-report.ts';
import { readPurchaseStats, readPurchaseTimeSeries } from '../../../src/domain/purchase-stats.ts';
import type { Shortcuts } from '../../../src/duckdb/shortcuts.ts';
import { createExportWriters } from '../../../src/exports/export-process.ts';
import { createUnseenMaximums } from '../../queries/purchase-queries.ts';

/** What is measured with a shortcut and without: the results are equal. */
export type Question = {
  readonly name: string;
  /** Asked right after changes, if the shortcut matters only then. */
  readonly isAfterChanges?: boolean;
  ask(asked: Asked): Promise<unknown>;
};

export type Asked = {
  readonly engine: PurchaseEngine;
  readonly organizationId: bigint;
  /** Ids of purchases, each once. */
  readonly nextId: () => bigint;
  readonly shortcuts: Partial<Shortcuts>;
  readonly dataDirectory: string;
  readonly signal: AbortSignal;
};

const unseenMaximum = createUnseenMaximums();
/** All purchases match, and nothing is cached of them. */
const uncached = (): PurchaseFilters => ({ maxValueInCents: unseenMaximum() });
const utc = { timeZone: undefined, weekStart: undefined };
const berlin = { ...utc, timeZone: 'Europe/Berlin' };

const statistics = (name: string, filters: () => PurchaseFilters, groupBy?: 'day'): Question => ({
  name: `statistics ${name}`,
  ask: async ({ engine, organizationId }) =>
    (
      await readPurchaseStats(engine, organizationId, {
        filters: filters(),
        groupLimit: 10,
        groupBy,
      })
    ).result,
});

const series = (name: string, calendar: typeof utc | typeof berlin): Question => ({
  name: `weekly series ${name}`,
  ask: async ({ engine, organizationId }) => {
    const query = { filters: {}, interval: 'week', groupLimit: 1, ...calendar } as const;
    return (await readPurchaseTimeSeries(engine, organizationId, query)).result;
  },
});

const report = (
  name: string,
  groupBy: PurchaseReportQuery['groupBy'],
  measures: readonly ReportMeasure[],
): Question => ({
  name: `report by ${name}`,
  ask: async ({ engine, organizationId }) => {
    const orderBy = { by: 'purchase_count', isDescending: true } as const;
    const query = { filters: {}, groupBy, measures, orderBy, limit: 1_000, ...utc };
    return (await engine.report(organizationId, query)).result;
  },
});

const page = (name: string, filters: () => PurchaseFilters, limit = 25): Question => ({
  name,
  ask: async ({ engine, organizationId }) =>
    (await engine.list(organizationId, { filters: filters(), limit })).result,
});

const walk: Question = {
  name: 'a walk of 20 pages',
  async ask({ engine, organizationId }) {
    const filters = uncached();
    let startingAfter: bigint | undefined;
    const pages = [];
    for (let read = 0; read < 20; read += 1) {
      const query = { filters, limit: 25, ...(startingAfter && { startingAfter }) };
      const { purchases } = (await engine.list(organizationId, query)).result;
      startingAfter = purchases.at(-1)?.id;
      pages.push(purchases);
    }
    return pages;
  },
};

/** The bytes of an export as NDJSON. */
const exportOf = (name: string, filters: PurchaseFilters): Question => ({
  name: `export of ${name}`,
  async ask({ engine, organizationId, dataDirectory, shortcuts, signal: outer }) {
    const limits = { threads: 2, memoryLimit: '256MiB' };
    const { writeExport } = createExportWriters({ ...limits, dataDirectory, shortcuts });
    return engine.export(
      organizationId,
      filters,
      async ({ result }, signal) => {
        let bytes = 0;
        const output = { format: 'ndjson' } as const;
        for await (const part of writeExport(result, filters, output, signal)) bytes += part.length;
        return bytes;
      },
      outer,
    );
  },
});

const afterChanges = (question: Question): Question => ({
  ...question,
  name: `${question.name}, after 25 changes`,
  isAfterChanges: true,
});

const paid = (): PurchaseFilters => ({ ...uncached(), paymentStatuses: ['paid'] });
const everything = () => ({});
const sums: readonly ReportMeasure[] = ['purchase_count', 'revenue_in_cents'];
const allStatistics = statistics('of all', uncached);
const weeks = series('of UTC', utc);
const weeksOfBerlin = series('of Berlin', berlin);
const firstPage = page('first page', everything);
const otherPage = page('another first page', uncached);
const onePurchase: Question = {
  name: 'one purchase',
  ask: async ({ engine, organizationId, nextId }) =>
    (await engine.get(organizationId, nextId())).result,
};
const byCampaign = report('campaign', ['utm_campaign'], [...sums, 'customer_count']);
const byDayAndCampaign = report(
  'day and campaign',
  ['day', 'utm_campaign'],
  [...sums, 'customer_count'],
);
const newByCampaign = report('customer type and campaign', ['customer_type', 'utm_campaign'], sums);
const cohorts: Question = {
  name: 'monthly cohorts',
  ask: async ({ engine, organizationId }) =>
    (await engine.cohorts(organizationId, { filters: {}, interval: 'month', periods: 60, ...utc }))
      .result,
};

/** The questions that each shortcut serves. */
export const questionsOf: { readonly [Name in keyof Shortcuts]?: readonly Question[] } = {
  minPurchasesPerQuarterOfSimpleCalendars: [weeks],
  minPurchasesPerQuarterOfOtherCalendars: [weeksOfBerlin, cohorts],
  maxGroupsInMemory: [report('source', ['utm_source'], sums)],
  maxBitmapBytes: [byCampaign],
  maxBitsPerPurchase: [byDayAndCampaign],
  minPurchasesForStoredFirsts: [newByCampaign, cohorts],
  listCacheBytes: [firstPage, walk],
  maxReadAheadPurchases: [walk],
  maxListChangesBytes: [afterChanges(firstPage)],
  maxSearchedChangesBytes: [afterChanges(onePurchase)],
  maxPendingRecords: [afterChanges(firstPage), afterChanges(onePurchase)],
  pagesPerWindow: [otherPage, page('another page of 100', uncached, 100)],
  maxListedPurchases: [exportOf('a day', { createdSince: BigInt(Date.UTC(2025, 11, 31)) * 1000n })],
  labelCacheBytes: [otherPage, statistics('of paid', paid)],
  maxKeptStatements: [otherPage, allStatistics, onePurchase],
  maxBytesOneByOne: [afterChanges(allStatistics)],
  maxIndexedCustomers: [afterChanges(allStatistics)],
  maxConstants: [afterChanges(allStatistics), afterChanges(weeks)],
  maxJoinedLabelBytes: [exportOf('everything', {})],
  maxJoinedCustomers: [exportOf('everything', {})],
};
