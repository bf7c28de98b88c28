import fc from 'fast-check';
import { afterAll, describe, expect } from 'vitest';
import { encodeId } from '../../../src/domain/public-id.ts';
import { seriesDimensions, statsDimensions } from '../../../src/domain/purchase-query.ts';
import {
  comparisons,
  isPeriodDimension,
  optionalAmounts,
  reportDimensions,
  reportMeasures,
} from '../../../src/domain/purchase-report.ts';
import type { TableColumn } from '../../../src/http/formats/table.ts';
import { purchaseTable } from '../../../src/resources/purchases/purchase-table.ts';
import { awkwardPurchase } from '../../support/awkward-purchases.ts';
import { test } from '../../support/fixtures.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../../support/shop.ts';
import { exactly, fileReader, objectsIn, readArrow, rowsOfJson } from './reading.ts';

const statsColumns: TableColumn[] = [
  { name: 'key', kind: 'label', absent: 'null' },
  { name: 'purchase_count', kind: 'integer', absent: 'never' },
  { name: 'revenue_in_cents', kind: 'integer', absent: 'never' },
  { name: 'average_ticket_in_cents', kind: 'integer', absent: 'never' },
  { name: 'customer_count', kind: 'integer', absent: 'left out' },
  { name: 'currency', kind: 'label', absent: 'null' },
  { name: 'mixed_currencies', kind: 'boolean', absent: 'never' },
];

const seriesColumns: TableColumn[] = [
  { name: 'starts_at', kind: 'instant', absent: 'never' },
  { name: 'key', kind: 'label', absent: 'null' },
  { name: 'purchase_count', kind: 'integer', absent: 'never' },
  { name: 'customer_count', kind: 'integer', absent: 'never' },
  { name: 'revenue_in_cents', kind: 'integer', absent: 'never' },
  { name: 'average_ticket_in_cents', kind: 'integer', absent: 'never' },
  { name: 'currency', kind: 'label', absent: 'null' },
  { name: 'mixed_currencies', kind: 'boolean', absent: 'never' },
  { name: 'is_complete', kind: 'boolean', absent: 'never' },
];

const cohortColumns: TableColumn[] = [
  { name: 'cohort', kind: 'instant', absent: 'never' },
  { name: 'key', kind: 'label', absent: 'null' },
  { name: 'cohort_customer_count', kind: 'integer', absent: 'never' },
  { name: 'period', kind: 'integer', absent: 'never' },
  { name: 'customer_count', kind: 'integer', absent: 'never' },
  { name: 'purchase_count', kind: 'integer', absent: 'never' },
  { name: 'revenue_in_cents', kind: 'integer', absent: 'never' },
  { name: 'is_complete', kind: 'boolean', absent: 'never' },
  { name: 'currency', kind: 'label', absent: 'null' },
  { name: 'mixed_currencies', kind: 'boolean', absent: 'never' },
];

/** Kinds of columns do not matter for what is compared. */
const reportColumns = (dimensions: readonly string[], measures: readonly string[]): TableColumn[] =>
  [
    ...dimensions,
    ...measures,
    ...measures.map((name) => `compared_${name}`),
    ...['currency', 'mixed_currencies'].filter((name) => !dimensions.includes(name)),
  ].map((name) => ({ name, kind: 'text', absent: 'null' }));

/** Every row has the currency of all purchases that match, unless it has its own. */
function withCurrency(json: string, objects: readonly string[]): string[] {
  const [fields] =
    /"currency":(null|"(?:[^"\\]|\\.)*"),"mixed_currencies":(true|false)/.exec(json) ?? [];
  const mixed = fields?.slice(fields.indexOf('"mixed'));
  return objects.map((object) => {
    const own = 'currency' in JSON.parse(object) ? mixed : fields;
    return `${object.slice(0, -1)},${own}}`;
  });
}

/** The periods of a time series in JSON, each with the key of its series. */
const periodsIn = (json: string): string[] =>
  objectsIn(json, 'series').flatMap((series) => {
    const [, key] = /^\{("key":(?:null|"(?:[^"\\]|\\.)*"))/.exec(series) ?? [];
    return objectsIn(series, 'periods').map((period) => `${period.slice(0, -1)},${key}}`);
  });

/** The rows of a report in JSON, with the measures of the compared period beside the others. */
const reportRowsIn = (json: string): string[] =>
  objectsIn(json, 'rows').map((row) =>
    row.replace(/,"compared":\{(.*)\}\}$/, (_, compared: string) => {
      const prefixed = compared.replaceAll(/"(\w+)":/g, '"compared_$1":');
      return `,${prefixed}}`;
    }),
  );

/** The periods of cohorts in JSON, each with its cohort. */
const cohortPeriodsIn = (json: string): string[] =>
  objectsIn(json, 'rows').flatMap((row) => {
    const [, cohort, count] = /^\{("cohort":.*),"customer_count":(\d+),"periods":/.exec(row) ?? [];
    return objectsIn(row, 'periods').map(
      (period, index) =>
        `${period.slice(0, -1)},${cohort},"cohort_customer_count":${count},"period":${index}}`,
    );
  });

const listedIn = {
  data: (json: string) => objectsIn(json, 'data'),
  groups: (json: string) => objectsIn(json, 'groups'),
  series: periodsIn,
  report: reportRowsIn,
  cohorts: cohortPeriodsIn,
};

/** The start of a period as CSV writes it. */
const withoutFraction = (value: string | null) =>
  value?.replace(/^(\d{4}-\d\d-\d\dT[\d:]{8})\.0{6}Z$/, '$1Z') ?? null;

describe('all formats of a response', () => {
  let csv: Awaited<ReturnType<typeof fileReader>>;
  let secret: string;
  let customers: bigint[];

  const it = test
    /** Requests every format, and compares the rows with those of JSON. */
    .extend(
      'expectAgreement',
      ({ api }) =>
        async (url: string, columns: readonly TableColumn[], member: keyof typeof listedIn) => {
          const getFormat = async (format: string) => {
            const response = await api.get(`${url}&format=${format}`, secret);
            expect(response.statusCode, `${url} ${format}: ${response.body}`).toBe(200);
            return response;
          };
          const json = (await getFormat('json')).body;
          const isTotal = member === 'groups' && json.includes('"group_by":null');
          const listed = listedIn[member](json);
          const objects = isTotal
            ? [json.replace('{', '{"key":null,')]
            : member === 'data'
              ? listed
              : withCurrency(json, listed);
          const rows = rowsOfJson(columns, objects);
          const more = JSON.parse(json);
          const hasMore = String(
            more.has_more ??
              more.groups_truncated ??
              more.series_truncated ??
              more.rows_truncated ??
              false,
          );

          const names = columns.map(({ name }) => name);
          const [plain, lines, arrow] = [
            await getFormat('csv'),
            await getFormat('ndjson'),
            await getFormat('arrow'),
          ];
          expect(await csv.readCsv(plain.rawPayload)).toEqual({
            names,
            rows: member === 'data' ? rows : rows.map((row) => row.map(withoutFraction)),
          });
          const objectsOfLines = lines.body.split('\n').slice(0, -1);
          expect(rowsOfJson(columns, objectsOfLines)).toEqual(rows);
          if (!isTotal) expect(objectsOfLines.map(exactly)).toEqual(objects.map(exactly));
          expect(readArrow(arrow.rawPayload).rows).toEqual(rows);
          for (const response of [plain, lines, arrow]) {
            expect(response.headers['x-has-more']).toBe(hasMore);
          }
        },
    );

  it.beforeAll(async ({ database, worker }) => {
    csv = await fileReader();
    const organization = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organization));
    customers = [];
    for (let count = 0; count < 3; count += 1) {
      customers.push(await addCustomer(database.pool, organization));
    }
    // These sums fit into 64 bits. Another test has a larger sum.
    const shop = awkwardPurchase(customers).map((values) => {
      const amounts = ['purchase_value_in_cents', ...optionalAmounts] as const;
      const small = amounts.map((name) => {
        const cents = values[name] ?? null;
        return [name, cents === null ? null : BigInt(cents) % 2n ** 54n];
      });
      return { ...values, ...Object.fromEntries(small) };
    });
    for (const values of fc.sample(shop, { numRuns: 240, seed: 3 })) {
      await addPurchase(database.pool, organization, values);
    }
    await addPurchase(database.pool, organization, {
      customer_id: customers[0] as bigint,
      order_number: '=HYPERLINK("http://x","a,b")\r\n\u{1F6D2}',
      utm_source: '"',
      utm_term: '\ufeff\u2028"\\,;|',
      coupons:
        '[{"id":12345678901234567890,"code":"a\\"b,\\n","value":1e400},{"value":10.50,"type":"x"}]',
    });
    await worker.syncAll();
  });
  afterAll(async () => {
    await csv.close();
  });

  const filters = fc.record(
    {
      status: fc.constantFrom('any', 'paid', 'pending', 'voided'),
      min_value_in_cents: fc.constantFrom('0', '100', '9007199254740993'),
      created_since: fc.constantFrom('1970-01-01T00:00:00Z', '2024-03-01T00:00:00Z'),
    },
    { requiredKeys: [] },
  );
  const query = (parameters: object): string =>
    new URLSearchParams(Object.entries(parameters)).toString();

  it('show the same purchases, to the cent and the microsecond', { tags: ['slow'] }, async ({
    expectAgreement,
  }) => {
    const ofCustomer = `/v1/customers/${encodeId('customer', customers[0] as bigint)}/purchases`;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('/v1/purchases', ofCustomer),
        filters,
        fc.integer({ min: 1, max: 100 }),
        (url, filter, limit) =>
          expectAgreement(`${url}?${query({ ...filter, limit })}`, purchaseTable.columns, 'data'),
      ),
      { numRuns: 15 },
    );
    await expectAgreement('/v1/purchases?limit=100', purchaseTable.columns, 'data');
  });

  it('show the same statistics', { tags: ['slow'] }, async ({ expectAgreement }) => {
    await fc.assert(
      fc.asyncProperty(
        filters,
        fc.option(fc.constantFrom(...statsDimensions), { nil: undefined }),
        fc.integer({ min: 1, max: 50 }),
        (filter, dimension, limit) => {
          const grouping = dimension === undefined ? {} : { group_by: dimension };
          const parameters = query({ ...filter, ...grouping, group_limit: limit });
          return expectAgreement(`/v1/purchases/stats?${parameters}`, statsColumns, 'groups');
        },
      ),
      { numRuns: 25 },
    );
  });

  it('show the same time series', { tags: ['slow'] }, async ({ expectAgreement }) => {
    const url = (parameters: object) => `/v1/purchases/timeseries?${query(parameters)}`;
    // The purchases of these months include the last microsecond of a day.
    const bounds = { created_since: '2024-01-15T00:00:00Z', created_until: '2024-03-15T00:00:00Z' };
    await fc.assert(
      fc.asyncProperty(
        filters,
        fc.constantFrom('day', 'week', 'month'),
        fc.constantFrom('UTC', 'America/Sao_Paulo', 'Asia/Kathmandu'),
        fc.option(fc.constantFrom(...seriesDimensions), { nil: undefined }),
        fc.integer({ min: 1, max: 50 }),
        (filter, interval, timezone, dimension, limit) => {
          const grouping = dimension === undefined ? {} : { group_by: dimension };
          const parameters = { ...filter, ...bounds, interval, timezone, ...grouping };
          return expectAgreement(
            url({ ...parameters, group_limit: limit }),
            seriesColumns,
            'series',
          );
        },
      ),
      { numRuns: 15 },
    );
    // No purchase, and no bound: no period.
    const none = url({ interval: 'day', min_value_in_cents: 2n ** 60n });
    await expectAgreement(none, seriesColumns, 'series');
  });

  it('show the same reports', { tags: ['slow'] }, async ({ expectAgreement }) => {
    const bounds = { created_since: '2024-02-29T00:00:00Z', created_until: '2024-03-15T00:00:00Z' };
    const dimensions = fc
      .shuffledSubarray([...reportDimensions], { minLength: 1, maxLength: 3 })
      .filter((chosen) => chosen.filter(isPeriodDimension).length < 2);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom({}, { status: 'paid,pending' }, { min_value_in_cents: '100' }),
        dimensions,
        fc.shuffledSubarray([...reportMeasures], { minLength: 1 }),
        fc.constantFrom('UTC', 'America/Sao_Paulo', 'Asia/Kathmandu'),
        fc.constantFrom(...comparisons),
        fc.constantFrom(1, 5, 1000),
        (filter, groupBy, measures, timezone, comparison, limit) => {
          fc.pre(!groupBy.includes('week') || !/_(month|year)$/.test(comparison));
          const lists = { group_by: groupBy.join(','), measures: measures.join(',') };
          const others = { timezone, compare_to: comparison, limit };
          const parameters = query({ ...filter, ...bounds, ...lists, ...others });
          const columns = reportColumns(groupBy, measures);
          return expectAgreement(`/v1/purchases/report?${parameters}`, columns, 'report');
        },
      ),
      { numRuns: 25 },
    );
  });

  it('show the same cohorts', { tags: ['slow'] }, async ({ expectAgreement }) => {
    for (const parameters of [
      { interval: 'month' },
      { interval: 'week', group_by: 'utm_term', periods: 60 },
      { interval: 'quarter', group_by: 'currency', status: 'paid' },
    ]) {
      const bounds = { created_since: '2024-01-01T00:00:00Z' };
      const url = `/v1/purchases/cohorts?${query({ ...bounds, ...parameters })}`;
      await expectAgreement(url, cohortColumns, 'cohorts');
    }
  });

  it('have columns of the documented types', async ({ api }) => {
    const { rawPayload } = await api.get('/v1/purchases?format=arrow', secret);
    const { types } = readArrow(rawPayload);
    expect(types).toMatchObject({
      id: 'Utf8',
      purchase_value_in_cents: 'Int64',
      created_at: 'Timestamp<MICROSECOND, UTC>',
      platform: 'Dictionary<Int32, Utf8>',
      utm_term: 'Dictionary<Int32, Utf8>',
      coupons: 'Utf8',
    });
  });
});
