import { mkdirSync } from 'node:fs';
import { basename } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import { replaceFileSync } from '../../src/process/replace-file.ts';
import {
  type Current,
  currentFile,
  organizationDirectory,
  serializeCurrent,
} from '../../src/purchase-store/format/current.ts';
import { createBaseLayout, layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { readBootId, type TickFile } from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import type { Records } from '../../sync/capture/changed-purchases.ts';
import { createLogFile, type NewLog } from '../../sync/files/log-files.ts';
import { createTickPublisher } from '../../sync/files/synced-ticks.ts';

/** Creates the file of a base without purchases, and attaches it as `base`. */
export async function attachEmptyBase(connection: DuckDBConnection, path: string): Promise<void> {
  await connection.run(`
    attach ${quotePath(path)} as base (storage_version 'v1.5.0');
    ${createBaseLayout('base')};
    insert into base.base values (${layoutVersion}, '${basename(path)}')`);
}

const watermark = { snapshot: '1:1:', token: 'token' };

/**
 * Publishes a base, which is in the folder already, and a log with `loaded`, as a load at the tick
 * `tick` does. Returns the log.
 */
export function publishFiles(
  dataDirectory: string,
  organizationId: bigint,
  loaded: Records,
  options: Partial<
    Pick<Current, 'base' | 'tick' | 'asOf' | 'purchases' | 'source' | 'fingerprint'>
  > = {},
): NewLog {
  const directory = organizationDirectory(dataDirectory, organizationId);
  mkdirSync(directory, { recursive: true });
  const log = createLogFile(directory);
  if (loaded.records > 0) log.append(loaded);
  const current: Current = {
    layoutVersion,
    base: null,
    log: log.name,
    logBytes: log.end().bytes,
    replacedLogs: [],
    source: '/1',
    fingerprint: '',
    tick: 0,
    asOf: 1n,
    purchases: loaded.records,
    ...watermark,
    ...options,
  };
  replaceFileSync(currentFile(directory), serializeCurrent(current));
  return log;
}

/** Publishes a tick that shows its number as instant. */
export function publishTestTick(
  dataDirectory: string,
  tick: number,
  options: Partial<TickFile> = {},
): void {
  const shown = { asOf: BigInt(tick), ...watermark };
  createTickPublisher(dataDirectory).publish({
    shard: everyOrganization,
    tick,
    ...shown,
    fingerprint: '',
    database: '',
    synced: { tick, ...shown, exceptions: {}, logEnds: {} },
    logEnds: {},
    boot: readBootId(),
    exceptions: {},
    ...options,
  });
}
