import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { StoreFiles } from '../../domain/purchase-engine.ts';
import type { Applied } from '../../purchase-store/delta/delta.ts';
import type { OpenStore, PendingBatches } from '../../purchase-store/open-store.ts';
import { type BaseCache, type Generation, nextGeneration } from './generation.ts';
import { later, type Shown } from './shown-instant.ts';

/** What the users of an attached base share. `descriptor` is null without a base. */
export type SharedBase = { readonly descriptor: number | null; readonly cache: BaseCache };

/** What a transaction that begins now sees: all changes up to `shown`, and none later than its tick. */
export type Version = { readonly generation: Generation; readonly shown: Shown };

/** Of an open store without changes, and of each record. Measured with 300 stores. */
const storeBytes = 300_000;
const recordBytes = 700;

/** An organization's open files, and the version that its queries see. */
export class OpenedStore {
  readonly store: OpenStore<SharedBase>;
  /** Of the CURRENT file that names the store. */
  readonly stamp: string | null;
  readonly #instance: DuckDBInstance;
  #version: Version;
  /** Transactions of queries that are about to begin: no application is committed meanwhile. */
  #beginning = 0;
  /** Pending while an application is committed: no transaction begins meanwhile. */
  #committing: Promise<void> | null = null;
  #applying: Promise<void> | null = null;
  #users = 0;
  #isRetired = false;

  constructor(
    instance: DuckDBInstance,
    store: OpenStore<SharedBase>,
    stamp: string | null,
    version: Version,
  ) {
    this.#instance = instance;
    this.store = store;
    this.stamp = stamp;
    this.#version = version;
  }

  get isInUse(): boolean {
    return this.#users > 0 || this.#applying !== null;
  }

  /** About the bytes that the store takes. */
  get weight(): number {
    return storeBytes + this.store.part().records * recordBytes;
  }

  filesAt(asOf: bigint): StoreFiles {
    const { base, logDescriptor, part } = this.store;
    const { lines, position } = part();
    return {
      base: base.content.descriptor,
      log: logDescriptor,
      part: { lines, bytes: position },
      asOf,
    };
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

  /** Concurrent calls share one application of batches. */
  async applyOnce(apply: () => Promise<void>): Promise<void> {
    this.#applying ??= apply().finally(() => {
      this.#applying = null;
    });
    await this.#applying;
  }

  async waitForApplication(): Promise<void> {
    await this.#applying?.catch(() => {});
  }

  /** Applies pending batches in one transaction, after which the store shows `shown`. */
  async apply(pending: PendingBatches, shown: Shown): Promise<void> {
    const connection = await this.#instance.connect();
    let committed = () => {};
    let applied: Applied | null = null;
    try {
      await this.store.apply(connection, pending, async (changes) => {
        applied = changes;
        this.#committing = new Promise((resolve) => {
          committed = resolve;
        });
        while (this.#beginning > 0) await sleep(1);
      });
      if (applied === null) return;
      const generation = nextGeneration(this.#version.generation, applied);
      this.#version = { generation, shown };
    } finally {
      this.#committing = null;
      committed();
      connection.closeSync();
    }
  }

  /**
   * Begins a transaction, and returns what it sees, which another query may have moved on meanwhile.
   * DuckDB fixes what a transaction sees of a database at its first use. USE is one that needs no plan:
   * a SELECT took 0.2 ms more.
   */
  async begin(connection: DuckDBConnection, shown: Shown): Promise<Version> {
    while (this.#committing !== null) await this.#committing;
    this.#beginning += 1;
    try {
      await connection.run(`begin transaction read only; use ${this.store.catalogs.delta}`);
      const { generation, shown: shownByVersion } = this.#version;
      return { generation, shown: later(shown, shownByVersion) };
    } finally {
      this.#beginning -= 1;
    }
  }

  async #closeUnused(): Promise<void> {
    if (!this.#isRetired || this.#users > 0) return;
    // Two calls must not close it.
    this.#isRetired = false;
    await this.waitForApplication();
    const connection = await this.#instance.connect();
    await this.store.close(connection).finally(() => connection.closeSync());
  }
}

/** An interrupt of the query may also interrupt the rollback. */
export async function rollback(connection: DuckDBConnection): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await connection.run('rollback');
      return;
    } catch (error) {
      if (/no transaction is active/i.test(String(error)) || attempt === maxRollbacks) return;
    }
    await sleep(1);
  }
}

const maxRollbacks = 100;
