import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { valueAt } from '../../src/domain/column-data.ts';
import { parseInstant } from '../../src/domain/instant.ts';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { awkwardLabels, awkwardPurchase } from '../support/awkward-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const asText = (row: unknown): string =>
  JSON.stringify(row, (_key, value) => (typeof value === 'bigint' ? `${value}n` : value));

describe('an export of all purchases that match', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let engines: Record<'duckdb' | 'postgres', PurchaseEngine>;
  let organization: bigint;
  let customers: bigint[];

  beforeAll(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    organization = await addOrganization(database.pool);
    customers = [];
    for (let count = 0; count < 3; count += 1) {
      customers.push(await addCustomer(database.pool, organization));
    }
    for (const values of fc.sample(awkwardPurchase(customers), { numRuns: 300, seed: 5 })) {
      await addPurchase(database.pool, organization, values);
    }
    // More than one batch of either engine.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
       select $1, $2, number, case when number % 2 = 0 then 'n' || number end
       from generate_series(1, 4500) as number`,
      [organization, customers[0]],
    );
    const worker = await createTestWorker(database.pool, directory.path);
    await worker.syncAll();
    await worker.close();
    const duckdb = await createTestDuckDBEngine(database.pool, directory.path);
    engines = { duckdb, postgres: createPostgresEngine(database.pool) };
  });
  afterAll(async () => {
    await engines.duckdb.close();
    await database.drop();
    await directory.remove();
  });

  const exported = (engine: PurchaseEngine, filters: PurchaseFilters, signal?: AbortSignal) =>
    engine.export(
      organization,
      filters,
      async ({ answer }) => {
        const rows: string[] = [];
        for await (const { rowCount, data } of answer) {
          for (let row = 0; row < rowCount; row += 1) {
            rows.push(asText(data.map((column) => valueAt(column, row))));
          }
        }
        return rows.sort();
      },
      signal,
    );

  it('has the rows of the list, each once, from either engine', async () => {
    const listed = (await storedPurchases(database.pool, organization))
      .map((purchase) => asText(purchaseColumns.map(({ name }) => purchase[name])))
      .sort();
    expect(listed).toHaveLength(4800);
    expect(await exported(engines.postgres, {})).toEqual(listed);
    expect(await exported(engines.duckdb, {})).toEqual(listed);
  });

  it('has the same rows from both for any filters', async () => {
    const filters: fc.Arbitrary<PurchaseFilters> = fc.record(
      {
        customerId: fc.constantFrom(...customers),
        paymentStatus: fc.constantFrom('paid', 'voided'),
        createdSince: fc.constant(parseInstant('1970-01-01T00:00:00Z', 'down') as bigint),
        maxValueInCents: fc.constantFrom(100n, 4000n),
        utm_source: fc.constantFrom<string>(...awkwardLabels, 'n400', 'in no purchase'),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(filters, async (asked) => {
        const rows = await exported(engines.duckdb, asked);
        expect(rows).toEqual(await exported(engines.postgres, asked));
      }),
      { numRuns: 60 },
    );
  });

  it.each(['duckdb', 'postgres'] as const)(
    'from %s is given up when the signal is aborted, and lets go of everything',
    async (name) => {
      const leaving = new AbortController();
      const engine = engines[name];
      const given = engine.export(
        organization,
        {},
        async ({ answer }) => {
          for await (const _batch of answer) leaving.abort(new Error('left'));
        },
        leaving.signal,
      );
      await expect(given).rejects.toThrow('left');
      expect(await exported(engine, { maxValueInCents: 10n })).not.toHaveLength(0);
      const { rows } = await database.pool.query(
        `select from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
      );
      expect(rows).toEqual([]);
    },
  );

  it('is ended by the close of its engine', async () => {
    const engine = await createTestDuckDBEngine(database.pool, directory.path);
    let closed: Promise<void> | undefined;
    const given = engine.export(organization, {}, async ({ answer }) => {
      for await (const _batch of answer) closed ??= engine.close();
    });
    await expect(given).rejects.toThrow('closing');
    await closed;
  });
});
