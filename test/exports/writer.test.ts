import { once } from 'node:events';
import { copyFile, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import type { PurchaseEngine, StoreFiles } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { SpreadsheetOptions } from '../../src/http/formats/csv.ts';
import type { ExportFormatName } from '../../src/http/formats/negotiation.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { fileReader } from '../http/formats/reading.ts';
import { awkwardLabels, awkwardPurchase } from '../support/awkward-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { childrenOf } from '../support/processes.ts';
import { publishedFiles } from '../support/published-files.ts';
import { testExportWriter as writeExport } from '../support/services.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

/** Of purchases in base and log, in a log without a base, and in Postgres. */
const engineNames = ['base and log', 'log', 'postgres'] as const;
const ofFiles = ['base and log', 'log'] as const;

/** An amount of 1234 in units, by its currency. */
const inUnits = [
  ['BRL', '12.34'],
  ['JPY', '1234'],
  ['KWD', '1.234'],
  ['CLF', '0.1234'],
  ['jpy', '12.34'],
  ['constructor', '12.34'],
  [null, '12.34'],
] as const;

const spreadsheetTexts = ['=1;2', '007', '3-4', '1E5', 'TRUE', 'a;b', '1234567890123456'];

type ExportedOptions = {
  readonly signal?: AbortSignal;
  readonly seen?: (part: Uint8Array) => void;
  readonly of?: bigint;
  readonly spreadsheet?: SpreadsheetOptions;
};

describe('an export of all purchases that match', () => {
  let database: TestDatabase;
  let directory: string;
  let engines: Record<(typeof engineNames)[number], PurchaseEngine>;
  let organization: bigint;
  let small: bigint;
  let customers: bigint[];

  it.beforeAll(async ({ database: ownDatabase, directory: ownDirectory, engine }) => {
    [database, directory] = [ownDatabase, ownDirectory];
    const withBase = await createTestWorker(database.pool, directory, {
      maxPurchasesWithoutBase: 0,
    });
    const withoutBase = await createTestWorker(database.pool, join(directory, 'log'));
    organization = await addOrganization(database.pool);
    customers = [];
    for (let count = 0; count < 3; count += 1) {
      customers.push(await addCustomer(database.pool, organization));
    }
    for (const values of fc.sample(awkwardPurchase(customers), { numRuns: 300, seed: 5 })) {
      await addPurchase(database.pool, organization, values);
    }
    for (const order_number of spreadsheetTexts) {
      const values = { order_number, utm_term: order_number, purchase_value_in_cents: 10n ** 15n };
      await addPurchase(database.pool, organization, {
        ...values,
        customer_id: customers[0] as bigint,
      });
    }
    small = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, small);
    for (const values of fc.sample(awkwardPurchase([customer]), { numRuns: 50, seed: 6 })) {
      await addPurchase(database.pool, small, values);
    }
    const superseded = await addPurchase(database.pool, organization, {
      customer_id: customers[0] as bigint,
      utm_source: 'deleted',
    });
    await withBase.syncAll();
    await database.pool.query(
      `update purchases set utm_source = 'changed', order_number = E'a\\tb\\\\n\\n"' where id % 5 = 0`,
    );
    await database.pool.query('delete from purchases where id = $1', [superseded]);
    // More than one batch of either engine.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, discount_in_cents,
         currency, utm_medium, utm_source)
       select $1, $2, 1234, case when number % 2 = 0 then -1234 end,
         ($3::text[])[number % array_length($3, 1) + 1], 'many', case when number % 2 = 0 then 'n' || number end
       from generate_series(1, 4500) as number`,
      [organization, customers[0], inUnits.map(([currency]) => currency)],
    );
    // sqids encodes each of these ids as several numbers.
    for (const id of [2n ** 53n - 1n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n]) {
      await database.pool.query('insert into customers (organization_id, id) values ($1, $2)', [
        organization,
        id,
      ]);
      await addPurchase(database.pool, organization, { id, customer_id: id });
    }
    for (const worker of [withBase, withoutBase]) {
      await worker.syncAll();
      await worker.close();
    }
    engines = {
      'base and log': engine,
      log: await createTestDuckDBEngine(join(directory, 'log')),
      postgres: createPostgresEngine(database.pool),
    };
    const baseOf = (of: string) => publishedFiles(organizationDirectory(of, organization))?.base;
    expect([baseOf(directory), baseOf(join(directory, 'log'))]).toEqual([expect.any(String), null]);
    return () => engines.log.close();
  });

  const exported = (
    name: keyof typeof engines,
    format: ExportFormatName,
    filters: PurchaseFilters,
    { signal, seen = () => {}, of = organization, spreadsheet }: ExportedOptions = {},
  ): Promise<Buffer> =>
    engines[name].export(
      of,
      filters,
      async ({ result: source }, either) => {
        const parts: Uint8Array[] = [];
        for await (const part of writeExport(source, filters, { format, spreadsheet }, either)) {
          seen(part);
          parts.push(Buffer.from(part));
        }
        return Buffer.concat(parts);
      },
      signal,
    );
  const withOptions = (name: keyof typeof engines, spreadsheet: SpreadsheetOptions) =>
    exported(name, 'csv_excel', {}, { spreadsheet });
  const linesOf = (bytes: Buffer): string[] => bytes.toString().split('\n').sort();

  it.each(['csv', 'csv_excel', 'ndjson'] as const)(
    'has the same lines from all engines for any filters: %s',
    { tags: ['slow'] },
    async (format) => {
      const filters: fc.Arbitrary<PurchaseFilters> = fc.record(
        {
          customerId: fc.constantFrom(...customers),
          paymentStatuses: fc.constantFrom(['paid'] as const, ['paid', 'voided'] as const),
          createdSince: fc.constant(parseInstant('1970-01-01T00:00:00Z', 'down') as bigint),
          maxValueInCents: fc.constantFrom(100n, 4000n),
          currency: fc.constantFrom(['BRL'], ['USD', 'BRL']),
          without: fc.constantFrom(['utm_term'] as const, ['status', 'shipping_status'] as const),
          utm_source: fc.subarray<string>([...awkwardLabels, 'n400', 'changed', 'deleted'], {
            minLength: 1,
          }),
        },
        { requiredKeys: [] },
      );
      await fc.assert(
        fc.asyncProperty(filters, async (given) => {
          const lines = linesOf(await exported('postgres', format, given));
          for (const name of ofFiles) {
            expect(linesOf(await exported(name, format, given))).toEqual(lines);
          }
        }),
        { numRuns: 3, examples: [[{}]] },
      );
    },
  );

  it.each([
    { amounts: 'units', timezone: 'America/Sao_Paulo' },
    { amounts: 'units', decimal: 'comma' },
    { amounts: 'units', decimal: 'comma', separator: 'semicolon', timezone: 'UTC' },
  ] as const)(
    'has the same lines from all engines with the options of csv_excel: %o',
    {
      tags: ['slow'],
    },
    async (spreadsheet) => {
      const lines = linesOf(await withOptions('postgres', spreadsheet));
      expect(lines.length).toBeGreaterThan(4811);
      for (const name of ofFiles) {
        expect(linesOf(await withOptions(name, spreadsheet))).toEqual(lines);
      }
    },
  );

  it.each(engineNames)(
    "has amounts in units of each row's currency from %s",
    { tags: ['slow'] },
    async (name) => {
      const filters = { utm_medium: ['many'] };
      const options = { spreadsheet: { amounts: 'units' } } as const;
      const [names = [], ...rows] = String(await exported(name, 'csv_excel', filters, options))
        .trimEnd()
        .split('\r\n')
        .map((line) => line.split(','));
      const fields = ['currency', 'purchase_value', 'discount', 'subtotal_amount'];
      const shown = rows.map((row) => fields.map((field) => row[names.indexOf(field)]).join(' '));
      expect(shown).toHaveLength(4500);
      expect(new Set(shown)).toEqual(
        new Set(
          inUnits.flatMap(([currency, amount]) =>
            ['', `-${amount}`].map((discount) => `${currency ?? ''} ${amount} ${discount} `),
          ),
        ),
      );
    },
  );

  it('has the same Parquet rows from all engines, which are prepared in DuckDB and in JavaScript', {
    tags: ['slow'],
  }, async () => {
    const files = await fileReader();
    const [ofPostgres, ...others] = await Promise.all(
      engineNames.toReversed().map(async (name) => {
        const { rows, types } = await files.readParquet(await exported(name, 'parquet', {}));
        return { types, rows: rows.map((row) => JSON.stringify(row)).sort() };
      }),
    );
    expect(ofPostgres?.rows).toHaveLength(4811);
    for (const other of others) expect(other).toEqual(ofPostgres);
    await files.close();
  });

  it('is the same if it is too small for a process', async () => {
    const few = (name: keyof typeof engines, format: ExportFormatName) =>
      exported(name, format, {}, { of: small });
    for (const format of ['csv', 'ndjson'] as const) {
      const lines = linesOf(await few('postgres', format));
      expect(lines.length).toBeGreaterThan(40);
      for (const name of ofFiles) expect(linesOf(await few(name, format))).toEqual(lines);
    }
  });

  it.each(['base and log', 'postgres'] as const)(
    'from %s ends when its signal is aborted, without an open transaction',
    { tags: ['slow'] },
    async (name) => {
      const client = new AbortController();
      const seen = () => client.abort(new Error('client disconnected'));
      const given = exported(name, 'ndjson', {}, { signal: client.signal, seen });
      await expect(given).rejects.toThrow('client disconnected');
      expect(await exported(name, 'ndjson', { maxValueInCents: 10n })).not.toHaveLength(0);
      const { rows } = await database.pool.query(
        `select from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
      );
      expect(rows).toEqual([]);
    },
  );

  it('needs no temporary folder of the system', { tags: ['slow'] }, async ({ onTestFinished }) => {
    const { TMPDIR } = process.env;
    onTestFinished(() => {
      if (TMPDIR === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = TMPDIR;
    });
    process.env.TMPDIR = '/proc/1/unwritable';
    expect((await exported('base and log', 'csv', {})).length).toBeGreaterThan(0);
    expect((await exported('postgres', 'parquet', {})).length).toBeGreaterThan(0);
  });

  it.runIf(canListOpenFiles)(
    'has none of the other files open that the API has open',
    { tags: ['slow'] },
    async () => {
      await exported('base and log', 'ndjson', { maxValueInCents: 10n });
      const isBase = (path: string) => path.includes('/base-');
      expect(openFilesUnder(directory).filter(isBase)).not.toEqual([]);
      const opened: string[][] = [];
      const seen = () => {
        for (const child of exportProcesses()) opened.push(openFilesUnder(directory, child));
      };
      await exported('log', 'ndjson', {}, { seen });
      const folder = organizationDirectory(join(directory, 'log'), organization);
      expect(opened[0]).toEqual([expect.stringContaining(`${folder}/log-`)]);
    },
  );

  it('ends if its signal is aborted before its process has started', async () => {
    const client = new AbortController();
    // The process would wait forever.
    const purchases = (async function* never() {
      await once(client.signal, 'abort');
      yield [];
    })();
    const begun = writeExport({ purchases }, {}, { format: 'parquet' }, client.signal).next();
    setImmediate(() => client.abort(new Error('client disconnected')));
    await expect(begun).rejects.toThrow('client disconnected');
    expect(exportProcesses()).toEqual([]);
  });

  it('fails if its process is killed', { tags: ['slow'] }, async () => {
    const seen = () => {
      for (const child of exportProcesses()) process.kill(child, 'SIGKILL');
    };
    const reading = exported('log', 'ndjson', {}, { seen });
    await expect(reading).rejects.toThrow('it ended with SIGKILL');
    expect(exportProcesses()).toEqual([]);
  });

  it('ends when its engine is closed', { tags: ['slow'] }, async () => {
    const engine = await createTestDuckDBEngine(directory);
    let closed: Promise<void> | undefined;
    const given = engine.export(organization, {}, async ({ result }, signal) => {
      for await (const _part of writeExport(result, {}, { format: 'csv' }, signal))
        closed ??= engine.close();
    });
    await expect(given).rejects.toThrow('closing');
    await closed;
  });

  /** Writes the files of the organization, with another descriptor of base or log. */
  const exportWith = async (
    format: ExportFormatName,
    other: Partial<StoreFiles>,
    seen = () => {},
  ): Promise<void> => {
    // The engine would not serve the files any more after an error that it receives.
    const failure = await engines['base and log'].export(
      organization,
      {},
      async ({ result }, signal) => {
        if (!('files' in result)) throw new Error('the purchases are few');
        const files = { ...result.files, ...other };
        try {
          for await (const _part of writeExport({ files }, {}, { format }, signal)) seen();
          return null;
        } catch (error) {
          return error;
        }
      },
    );
    if (failure !== null) throw failure;
  };

  it.each([
    ['csv', 'base', /export process failed: .*not a valid DuckDB/],
    ['csv', 'log', /export process failed: .*Conversion Error/s],
  ] as const)(
    'reports the error of its process, and writes nothing: %s, %s',
    async (format, damaged, message) => {
      const path = join(directory, 'nothing.duckdb');
      await writeFile(path, 'u\tno file of purchases\n'.repeat(10));
      const file = await open(path);
      let parts = 0;
      const read = exportWith(format, { [damaged]: file.fd }, () => {
        parts += 1;
      });
      await expect(read).rejects.toThrow(message);
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
      await copyFile(join(folder, publishedFiles(folder)?.base ?? ''), path);
      await withoutFirstEntry(path, dictionary);
      const file = await open(path);
      await expect(exportWith(format, { base: file.fd })).rejects.toThrow(
        format === 'arrow'
          ? /the dictionary of utm_source has no key 1/
          : /the file is damaged: of 4811 purchases \d+ were/,
      );
      await file.close();
    },
  );
});

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
