import { copyFileSync, mkdirSync, openSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { prepareSpill, spillDirectory } from '../../src/duckdb/spill.ts';
import { test } from '../support/fixtures.ts';

const file = { scope: 'file' } as const;

/** A data folder that is a symbolic link, and a folder beside it. */
const it = test
  .extend('folders', file, ({ directory }) => {
    const [target, data, other] = ['target', 'data', 'other'].map((name) => join(directory, name));
    mkdirSync(target as string);
    mkdirSync(other as string);
    symlinkSync(target as string, data as string);
    writeFileSync(join(other as string, 'rows.csv'), 'secret\n1\n');
    return { data: data as string, other: other as string };
  })
  .extend('connection', file, async ({ folders: { data } }, { onCleanup }) => {
    prepareSpill(data);
    const instance = await createInstance(
      {
        threads: 1,
        memoryLimit: '64MiB',
        dataDirectory: data,
        spillDirectory: spillDirectory(data, 'test'),
      },
      async (preparing) => {
        await preparing.run(`attach '${join(data, '../other/known.duckdb')}' as known;
          create table known.purchase as select 7 as id;
          detach known`);
      },
    );
    const connection = await instance.connect();
    onCleanup(async () => {
      connection.closeSync();
      instance.closeSync();
    });
    return connection;
  });

const firstValue = async (connection: DuckDBConnection, statement: string) =>
  (await connection.runAndReadAll(statement)).getRows()[0]?.[0];

describe('an instance of DuckDB', () => {
  it.for([
    ["attach 'OTHER/new.duckdb'", /disabled by configuration/],
    ["attach 'OTHER/known.duckdb' (read_only)", /disabled by configuration/],
    ["attach 'DATA/../other/known.duckdb' (read_only)", /disabled by configuration/],
    ["select * from read_csv('OTHER/rows.csv')", /disabled by configuration/],
    ["select * from read_text('/etc/hosts')", /disabled by configuration/],
    ["select * from glob('OTHER/*')", /disabled by configuration/],
    ["copy (select 1) to 'OTHER/rows.parquet' (format parquet)", /disabled by configuration/],
    ["export database 'OTHER/all'", /disabled by configuration/],
    ['install httpfs', /disabled by configuration/],
    ['load httpfs', /disabled through configuration/],
    ["load 'DATA/any.duckdb_extension'", /disabled through configuration/],
    ['set enable_external_access = true', /has been locked/],
    ["set allowed_directories = ['/']", /has been locked/],
    ['set threads = 64', /has been locked/],
    ["set memory_limit = '1TB'", /has been locked/],
    ["pragma profiling_output = 'OTHER/profile'", /has been locked/],
    ['reset lock_configuration', /has been locked/],
  ] as const)('refuses: %s', async ([statement, refusal], { folders, connection }) => {
    const { data, other } = folders;
    const named = statement.replaceAll('OTHER', other).replaceAll('DATA', data);
    await expect(connection.run(named)).rejects.toThrow(refusal);
  });

  it('opens files of the data folder, and open files by their descriptors', async ({
    folders: { data, other },
    connection,
  }) => {
    const known = join(data, 'known.duckdb');
    copyFileSync(join(other, 'known.duckdb'), known);
    await connection.run(`attach '${known}' as by_name (read_only)`);
    expect(await firstValue(connection, 'select id from by_name.purchase')).toBe(7);
    await connection.run('detach by_name');
    const descriptor = openSync(known, 'r');
    rmSync(known);
    await connection.run(`attach '/dev/fd/${descriptor}' as without_name (read_only)`);
    expect(await firstValue(connection, 'select id from without_name.purchase')).toBe(7);
    await connection.run('detach without_name');
  });

  it('writes rows beyond its memory to the spill folder', async ({ connection }) => {
    await connection.run(`create temp table large as
      select range, repeat(hash(range)::varchar, 10) as text from range(500000)`);
    const spilled = 'select sum(size) from duckdb_temporary_files()';
    expect(Number(await firstValue(connection, spilled))).toBeGreaterThan(0);
    const least = 'select min(text) from large';
    expect(await firstValue(connection, least)).toMatch(/^[0-9]+$/);
  });
});
