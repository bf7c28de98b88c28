import { copyFile, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { ExportFormatName } from '../../src/http/formats/negotiation.ts';
import { writeExactly } from '../../src/http/response/exact-numbers.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { serializePurchase } from '../../src/resources/purchase-wire.ts';
import { exactly, fileReader } from '../http/formats/reading.ts';
import { awkwardLabels, awkwardPurchase } from '../support/awkward-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { childrenOf } from '../support/processes.ts';
import { storedPurchases } from '../support/published.ts';
import { testExportWriter as writeExport } from '../support/services.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

describe('an export of all purchases that match', () => {
  let database: TestDatabase;
  let directory: string;
  let engines: Record<'duckdb' | 'postgres', PurchaseEngine>;
  let organization: bigint;
  let small: bigint;
  let customers: bigint[];

  it.beforeAll(async ({ database: ownDatabase, directory: ownDirectory, worker, engine }) => {
    [database, directory] = [ownDatabase, ownDirectory];
    organization = await addOrganization(database.pool);
    customers = [];
    for (let count = 0; count < 3; count += 1) {
      customers.push(await addCustomer(database.pool, organization));
    }
    for (const values of fc.sample(awkwardPurchase(customers), { numRuns: 300, seed: 5 })) {
      await addPurchase(database.pool, organization, values);
    }
    small = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, small);
    for (const values of fc.sample(awkwardPurchase([customer]), { numRuns: 50, seed: 6 })) {
      await addPurchase(database.pool, small, values);
    }
    // More than one batch of either engine.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
       select $1, $2, number, case when number % 2 = 0 then 'n' || number end
       from generate_series(1, 4500) as number`,
      [organization, customers[0]],
    );
    // sqids encodes each of these ids as several numbers.
    for (const id of [2n ** 53n - 1n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n]) {
      await database.pool.query('insert into customers (organization_id, id) values ($1, $2)', [
        organization,
        id,
      ]);
      await addPurchase(database.pool, organization, { id, customer_id: id });
    }
    await worker.syncAll();
    engines = { duckdb: engine, postgres: createPostgresEngine(database.pool) };
  });

  const exported = (
    name: keyof typeof engines,
    format: ExportFormatName,
    filters: PurchaseFilters,
    signal?: AbortSignal,
    seen: (part: Uint8Array) => void = () => {},
    of = organization,
  ): Promise<Buffer> =>
    engines[name].export(
      of,
      filters,
      async ({ result: source }, either) => {
        const parts: Uint8Array[] = [];
        for await (const part of writeExport(source, filters, format, either)) {
          seen(part);
          parts.push(Buffer.from(part));
        }
        return Buffer.concat(parts);
      },
      signal,
    );
  const linesOf = (bytes: Buffer): string[] => bytes.toString().split('\n').sort();

  it('has the rows of the list, each once, from either engine', { tags: ['slow'] }, async () => {
    const listed = (await storedPurchases(database.pool, organization))
      .map((purchase) => writeExactly(JSON.stringify(serializePurchase(purchase), exactBigints)))
      .sort();
    expect(listed).toHaveLength(4804);
    for (const name of ['duckdb', 'postgres'] as const) {
      const lines = linesOf(await exported(name, 'ndjson', {}));
      expect(lines.slice(1).map(exactly)).toEqual(listed.map(exactly));
    }
  });

  it.each(['csv', 'csv_excel', 'ndjson'] as const)(
    'has the same lines from both engines for any filters: %s',
    { tags: ['slow'] },
    async (format) => {
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
        fc.asyncProperty(filters, async (given) => {
          const lines = linesOf(await exported('duckdb', format, given));
          expect(lines).toEqual(linesOf(await exported('postgres', format, given)));
        }),
        { numRuns: 3, examples: [[{}]] },
      );
    },
  );

  it('has the same Parquet rows from both engines, which are prepared in DuckDB and in JavaScript', {
    tags: ['slow'],
  }, async () => {
    const files = await fileReader();
    const [ofDuckdb, ofPostgres] = await Promise.all(
      (['duckdb', 'postgres'] as const).map(async (name) => {
        const { rows, types } = await files.readParquet(await exported(name, 'parquet', {}));
        return { types, rows: rows.map((row) => JSON.stringify(row)).sort() };
      }),
    );
    expect(ofDuckdb?.rows).toHaveLength(4804);
    expect(ofDuckdb).toEqual(ofPostgres);
    await files.close();
  });

  it('is the same if it is too small for a process', async () => {
    const few = (name: keyof typeof engines, format: ExportFormatName) =>
      exported(name, format, {}, undefined, undefined, small);
    for (const format of ['csv', 'ndjson'] as const) {
      const lines = linesOf(await few('duckdb', format));
      expect(lines.length).toBeGreaterThan(40);
      expect(lines).toEqual(linesOf(await few('postgres', format)));
    }
  });

  it.each(['duckdb', 'postgres'] as const)(
    'from %s ends when its signal is aborted, without an open transaction',
    { tags: ['slow'] },
    async (name) => {
      const client = new AbortController();
      const given = exported(name, 'ndjson', {}, client.signal, () =>
        client.abort(new Error('client disconnected')),
      );
      await expect(given).rejects.toThrow('client disconnected');
      expect(await exported(name, 'ndjson', { maxValueInCents: 10n })).not.toHaveLength(0);
      const { rows } = await database.pool.query(
        `select from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
      );
      expect(rows).toEqual([]);
    },
  );

  it('ends if its signal is aborted before its process has started', async () => {
    const client = new AbortController();
    // The process would wait forever.
    const purchases = (async function* never() {
      await new Promise(() => {});
      yield [];
    })();
    const begun = writeExport({ purchases }, {}, 'parquet', client.signal).next();
    setImmediate(() => client.abort(new Error('client disconnected')));
    await expect(begun).rejects.toThrow('client disconnected');
    expect(exportProcesses()).toEqual([]);
  });

  it('fails if its process is killed', { tags: ['slow'] }, async () => {
    const reading = exported('duckdb', 'ndjson', {}, undefined, () => {
      for (const child of exportProcesses()) process.kill(child, 'SIGKILL');
    });
    await expect(reading).rejects.toThrow('it ended with SIGKILL');
    expect(exportProcesses()).toEqual([]);
  });

  it('ends when its engine is closed', { tags: ['slow'] }, async () => {
    const engine = await createTestDuckDBEngine(directory);
    let closed: Promise<void> | undefined;
    const given = engine.export(organization, {}, async ({ result }, signal) => {
      for await (const _part of writeExport(result, {}, 'csv', signal)) closed ??= engine.close();
    });
    await expect(given).rejects.toThrow('closing');
    await closed;
  });

  it.each(['csv', 'arrow', 'parquet'] as const)(
    'reports the error of its process, and writes nothing: %s',
    async (format) => {
      const path = join(directory, 'nothing.duckdb');
      await writeFile(path, 'no file of purchases');
      const file = await open(path);
      let parts = 0;
      const read = async () => {
        const { signal } = new AbortController();
        for await (const _part of writeExport(filesAt(file.fd), {}, format, signal)) {
          parts += 1;
        }
      };
      await expect(read()).rejects.toThrow(/export process failed: .*not a valid DuckDB/);
      // A response that has not started can still become an error.
      expect(parts).toBe(0);
      await file.close();
    },
  );

  it.each([
    ['csv', 'customer'],
    ['ndjson', 'label_utm_source'],
    ['parquet', 'label_utm_source'],
    ['arrow', 'label_utm_source'],
  ] as const)(
    'fails if a dictionary lacks a value: %s, %s',
    { tags: ['slow'] },
    async (format, dictionary) => {
      const folder = organizationDirectory(directory, organization);
      const path = join(directory, `${dictionary}-${format}.duckdb`);
      const published = readPublished(folder);
      await copyFile(join(folder, published?.base ?? ''), path);
      await withoutFirstEntry(path, dictionary);
      const file = await open(path);
      const delta = await open(join(folder, published?.file ?? ''));
      const read = async () => {
        const { signal } = new AbortController();
        for await (const _part of writeExport(filesAt(file.fd, delta.fd), {}, format, signal)) {
          // Only the error is tested.
        }
      };
      await expect(read()).rejects.toThrow(
        format === 'arrow'
          ? /the dictionary of utm_source has no key 1/
          : /the file is damaged: of 4804 purchases \d+ were/,
      );
      await file.close();
      await delta.close();
    },
  );
});

const filesAt = (base: number, delta = base) => ({ descriptors: { base, delta } });

async function withoutFirstEntry(path: string, dictionary: string): Promise<void> {
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  const { rowsChanged } = await connection.run(
    `delete from ${dictionary} where key = (select min(key) from ${dictionary})`,
  );
  expect(rowsChanged).toBe(1);
  connection.closeSync();
  instance.closeSync();
}

const exportProcesses = () => childrenOf(process.pid, /exports\/export-worker/);

const exactBigints = (_name: string, value: unknown): unknown =>
  typeof value === 'bigint' ? `\0${value}` : value;
