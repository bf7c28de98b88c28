import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { NoGenerationError, type PurchaseReader } from '../../src/domain/purchase-engine.ts';
import {
  type Connection,
  type Database,
  withConnection,
} from '../../src/postgres/connection/pool.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { addCustomer, addPurchase } from './shop.ts';

type Shown = { readonly value: bigint; readonly asOf: bigint };

/** A purchase whose amount counts transactions, so that a result tells which of them it shows. */
export type Marker = {
  readonly organizationId: bigint;
  readonly customerId: bigint;
  /** The number of increments. */
  value(): bigint;
  /** Increments the amount in a transaction, in which `work` may write too. */
  increment(work?: (connection: Connection) => Promise<unknown>): Promise<void>;
  /**
   * What the reader shows; null if it shows no data. Requires that this has all increments that were
   * committed before the instant that it shows.
   */
  read(reader: PurchaseReader): Promise<Shown | null>;
};

export async function addMarker(database: Database, organizationId: bigint): Promise<Marker> {
  const customerId = await addCustomer(database, organizationId);
  const id = await addPurchase(database, organizationId, {
    customer_id: customerId,
    purchase_value_in_cents: 0,
  });
  /** The instants at which the increments were visible to all. */
  const committedAt: bigint[] = [];

  return {
    organizationId,
    customerId,
    value: () => BigInt(committedAt.length),

    increment: (work = async () => {}) =>
      withConnection(database, async (connection) => {
        await connection.query('begin');
        await work(connection);
        await connection.query(
          'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id = $1',
          [id],
        );
        await connection.query('commit');
        const { rows } = await connection.query<{ now: bigint }>(
          `select ${microsecondsOf('clock_timestamp()')} as now`,
        );
        committedAt.push(rows[0]?.now as bigint);
      }),

    async read(reader) {
      const read = await reader.get(organizationId, id).catch((error) => {
        if (error instanceof NoGenerationError) return null;
        throw error;
      });
      if (read === null) return null;
      const { asOf, result } = read;
      const value = result?.purchase_value_in_cents ?? -1n;
      const committed = committedAt.filter((instant) => instant <= asOf).length;
      expect(value, `increments until ${asOf}`).toBeGreaterThanOrEqual(BigInt(committed));
      return { value, asOf };
    },
  };
}

/** Reads until all increments are shown. The instant must not go back. */
export async function untilShown(marker: Marker, reader: PurchaseReader): Promise<Shown> {
  let last = { value: -1n, asOf: 0n };
  for (; ; await sleep(5)) {
    const shown = await marker.read(reader);
    if (shown === null) continue;
    expect(shown.asOf).toBeGreaterThanOrEqual(last.asOf);
    last = shown;
    if (shown.value === marker.value()) return shown;
  }
}
