import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import {
  createBaseLayout,
  createDeltaLayout,
  insertPlaceholder,
  layoutVersion,
} from '../../src/purchase-store/layout.ts';
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';

export const storeFiles = { base: 'base-0.duckdb', delta: '1-0-0.duckdb' };

/** Creates the files of a generation without purchases, and attaches them as `base` and `delta`. */
export async function attachEmptyStore(
  connection: DuckDBConnection,
  directory: string,
  organization = 0n,
): Promise<StoreCatalogs> {
  const path = (name: string) => quotePath(join(directory, name));
  await connection.run(`
    attach ${path(storeFiles.base)} as base (storage_version 'v1.5.0');
    attach ${path(storeFiles.delta)} as delta (storage_version 'v1.5.0');
    ${createBaseLayout('base')};
    ${createDeltaLayout('delta')};
    insert into base.base values (${layoutVersion}, '${storeFiles.base}');
    insert into delta.watermark
    values (${layoutVersion}, ${organization}, '${storeFiles.base}', '', '', '', '1:1:', 'epoch');`);
  const catalogs = { base: 'base', delta: 'delta' };
  await connection.run(insertPlaceholder(catalogs));
  return catalogs;
}
