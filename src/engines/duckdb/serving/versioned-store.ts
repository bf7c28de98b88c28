import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { StoreFiles } from '../../../domain/purchase-engine.ts';
import { withDuckDBConnection } from '../../../duckdb/connection.ts';
import { bytesPerIndexedCustomer } from '../../../purchase-store/delta/customer-index.ts';
import { bytesPerChangedId } from '../../../purchase-store/delta/supersede.ts';
import { customerDictionary } from '../../../purchase-store/format/layout.ts';
import type { LogPart, OpenStore, PendingBatches } from '../../../purchase-store/open-store.ts';
import { type BaseCache, type Generation, nextGeneration } from './generation.ts';
import { later, type TickInstant } from './tick-instant.ts';

/** What the users of an attached base share. `descriptor` is null without a base. */
export type SharedBase = { readonly descriptor: number | null; readonly cache: BaseCache };

/** The data that a new transaction sees: all changes up to `instant`, and none later than its tick. */
export type Version = {
  readonly generation: Generation;
  readonly instant: TickInstant;
  /** The part of the log that the delta shows. */
  readonly part: LogPart;
};

/** The memory of a store without changes, and of a record besides its text: measured with 300 stores. */
const storeBytes = 300_000;
const recordBytes = 430;

/** An organization's open files, and the version that its queries see. */
export class VersionedStore {
  readonly store: OpenStore<SharedBase>;
  /** The stamp of the file CURRENT that names the store. */
  readonly stamp: string | null;
  readonly #instance: DuckDBInstance;
  #version: Version;
  /** Transactions of queries that are about to begin: no change is committed meanwhile. */
  #beginning = 0;
  /** Pending while a change is committed: no transaction begins meanwhile. */
  #committing: Promise<void> | null = null;
  #changing: Promise<void> | null = null;
  #users = 0;
  #isRetired = false;

  constructor(
    instance: DuckDBInstance,
    store: OpenStore<SharedBase>,
    stamp: string | null,
    version: Pick<Version, 'generation' | 'instant'>,
  ) {
    this.#instance = instance;
    this.store = store;
    this.stamp = stamp;
    this.#version = { ...version, part: store.part() };
  }

  get isInUse(): boolean {
    return this.#users > 0 || this.#changing !== null;
  }

  /** About the bytes that the store takes. */
  get weight(): number {
    const { records, bytes } = this.store.part();
    const customers = this.#version.generation.keyCounts(customerDictionary);
    const indexBytes = records === 0 ? 0 : customers * bytesPerIndexedCustomer;
    return storeBytes + records * (recordBytes + bytesPerChangedId) + bytes + indexBytes;
  }

  filesOf({ part: { lines, bytes }, instant: { asOf } }: Version): StoreFiles {
    const { base, logDescriptor: log } = this.store;
    return { base: base.content.descriptor, log, part: { lines, bytes }, asOf };
  }

  /** The present version, without a transaction that keeps it. It may be later than `instant`. */
  async present(instant: TickInstant): Promise<Version> {
    while (this.#committing !== null) await this.#committing;
    return this.#versionAt(instant);
  }

  #versionAt(instant: TickInstant): Version {
    return { ...this.#version, instant: later(instant, this.#version.instant) };
  }

  /** Keeps the files open until the returned function is called. */
  hold(): () => Promise<void> {
    this.#users += 1;
    return async () => {
      this.#users -= 1;
      await this.#closeUnused();
    };
  }

  /** Closes the files as soon as nobody holds them. */
  async retire(): Promise<void> {
    this.#isRetired = true;
    await this.#closeUnused();
  }

  /** Concurrent calls share one change. */
  async changeOnce(change: () => Promise<void>): Promise<void> {
    this.#changing ??= change().finally(() => {
      this.#changing = null;
    });
    await this.#changing;
  }

  async waitForChange(): Promise<void> {
    await this.#changing?.catch(() => {});
  }

  /** The instant of the batches that the delta shows. */
  get instant(): TickInstant {
    return this.#version.instant;
  }

  /** Applies pending batches, which end with those of the tick of `instant`, in one transaction. */
  async apply(pending: PendingBatches, instant: TickInstant): Promise<void> {
    await this.#commit(async (connection, beforeCommit) => {
      const applied = await this.store.apply(connection, pending, beforeCommit);
      const generation = nextGeneration(this.#version.generation, applied);
      return { generation, instant, part: this.store.part() };
    });
  }

  async #commit(
    change: (connection: DuckDBConnection, beforeCommit: () => Promise<void>) => Promise<Version>,
  ): Promise<void> {
    const connection = await this.#instance.connect();
    let committed = () => {};
    const beforeCommit = async () => {
      this.#committing = new Promise((resolve) => {
        committed = resolve;
      });
      while (this.#beginning > 0) await sleep(1);
    };
    try {
      this.#version = await change(connection, beforeCommit);
    } finally {
      this.#committing = null;
      committed();
      connection.closeSync();
    }
  }

  /**
   * Begins a transaction, and returns the version that it sees. It may be later than `instant`, whose
   * batches the store must show, unless they do not affect the query. DuckDB fixes the version of a database at
   * the transaction's first use. USE needs no plan: a SELECT took 0.2 ms more.
   */
  async begin(connection: DuckDBConnection, instant: TickInstant): Promise<Version> {
    while (this.#committing !== null) await this.#committing;
    this.#beginning += 1;
    try {
      const version = this.#versionAt(instant);
      await connection.run(`begin transaction read only; use ${this.store.catalogs.delta}`);
      return version;
    } finally {
      this.#beginning -= 1;
    }
  }

  async #closeUnused(): Promise<void> {
    if (!this.#isRetired || this.#users > 0) return;
    // Two calls must not close the store twice.
    this.#isRetired = false;
    await this.waitForChange();
    await withDuckDBConnection(this.#instance, (connection) => this.store.close(connection));
  }
}

/** A later statement on the connection would fail if its default database had been detached. */
const useDefaultDatabase = 'use memory';

/** Ends a transaction of `begin`. */
export async function commit(connection: DuckDBConnection): Promise<void> {
  await connection.run(`commit; ${useDefaultDatabase}`);
}

/** An interrupt of the query may also interrupt these statements. */
export async function rollback(connection: DuckDBConnection): Promise<void> {
  await repeatUntilRun(connection, 'rollback');
  await repeatUntilRun(connection, useDefaultDatabase);
}

async function repeatUntilRun(connection: DuckDBConnection, statement: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await connection.run(statement);
      return;
    } catch (error) {
      if (/no transaction is active/i.test(String(error)) || attempt === maxAttempts) return;
    }
    await sleep(1);
  }
}

const maxAttempts = 100;
