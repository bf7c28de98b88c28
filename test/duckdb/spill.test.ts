import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { prepareSpill, spillDirectory } from '../../src/duckdb/spill.ts';
import { test as it } from '../support/fixtures.ts';

it('temporary files of killed processes are removed, and those of running ones stay', ({
  directory,
}) => {
  const fileOf = (name: string, ageSeconds: number) => {
    const folder = spillDirectory(directory, name);
    mkdirSync(folder, { recursive: true });
    const path = join(folder, 'duckdb_temp_storage_DEFAULT-0.tmp');
    writeFileSync(path, 'rows');
    const changedAt = Date.now() / 1000 - ageSeconds;
    utimesSync(path, changedAt, changedAt);
    return path;
  };
  const killed = fileOf('api', 7_200);
  const running = fileOf('api', 60);
  prepareSpill(directory);
  expect(existsSync(killed)).toBe(false);
  expect(existsSync(running)).toBe(true);
});
