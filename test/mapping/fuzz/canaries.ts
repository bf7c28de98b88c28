import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import {
  type Database,
  withConnection,
  withSnapshot,
} from '../../../src/postgres/connection/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { requireOwnRefusal, reserve, type Shop } from './sessions.ts';
import { column, inStore, type Sites, type Store, tableOf } from './store.ts';

/** Orders that nothing deletes or hides, with their last confirmed versions and an instant after each commit. */
export type Canaries = Map<string, { version: number; at: bigint }[]>;

export async function writeCanaries(
  shop: Shop,
  random: RandomSource,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<void> {
  const versions = new Map<string, number>();
  while (!signal.aborted) {
    await sleep(random.between(20, 150));
    if (shop.isPaused) continue;
    const { version } = shop;
    const known = [...versions.keys()];
    const isNew = known.length < 5 || random.chance(0.3);
    const id = isNew ? String(reserve(shop)(1)) : random.pick(known);
    const next = (versions.get(id) ?? 0) + 1;
    const statement = canaryStatement(shop.store, random, id, next, isNew);
    try {
      const confirmed = await withConnection(shop.database, async (connection) => {
        const { rowCount } = await connection.query(statement);
        expect(rowCount, statement).toBe(1);
        const { rows } = await connection.query<{ now: bigint }>(
          'select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now',
        );
        return rows[0]?.now ?? 0n;
      });
      versions.set(id, next);
      canaries.set(id, [...(canaries.get(id) ?? []), { version: next, at: confirmed }]);
    } catch (error) {
      requireOwnRefusal(shop, error, version, statement);
    }
  }
}

function canaryStatement(
  store: Store,
  random: RandomSource,
  id: string,
  version: number,
  isNew: boolean,
): string {
  const of = (name: keyof Store['orders']['columns']) => column(store, 'orders', name);
  const orders = tableOf(store, 'orders');
  if (!isNew)
    return `update ${orders} set ${of('note')} = 'v${version}' where ${of('id')}::text = '${id}'`;
  const { name, month } = random.pick(store.partitions.filter(({ isKept }) => isKept));
  const table = random.chance(0.5) ? orders : inStore(name);
  return `insert into ${table} (${['id', 'client', 'cents', 'state', 'placed', 'month', 'note', 'site', 'hidden'].map((each) => of(each as 'id')).join(', ')})
    values ('${id}', null, '1000', '${store.states[0]}', '2026-03-03', ${month}, 'v${version}', 1, false)`;
}

/** Requires again and again that the stored rows have what was committed before the claimed instant. */
export async function checkCanaries(
  database: Database,
  { first }: Sites,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<void> {
  let last = 0n;
  while (!signal.aborted) {
    await sleep(50);
    const { asOf, stored } = await withSnapshot(database, async (connection) => {
      const { rows } = await connection.query<{ at: bigint }>(
        'select (extract(epoch from as_of) * 1000000)::bigint as at from mapping_state',
      );
      const { rows: purchases } = await connection.query<{ id: string; note: string }>(
        `select order_number as id, utm_source as note from purchases where organization_id = $1 and utm_source <> 'v0'`,
        [first],
      );
      return {
        asOf: rows[0]?.at ?? 0n,
        stored: new Map(purchases.map(({ id, note }) => [id, Number(note.slice(1))])),
      };
    });
    expect(asOf >= last, 'instants go back').toBe(true);
    last = asOf;
    const missing = [...canaries].flatMap(([id, confirmed]) => {
      const wanted = confirmed.filter(({ at }) => at < asOf).at(-1);
      const found = stored.get(id);
      return wanted === undefined || (found !== undefined && found >= wanted.version)
        ? []
        : [{ id, found, wanted: wanted.version, lateMs: Number(asOf - wanted.at) / 1000 }];
    });
    expect(missing, `claimed ${asOf}`).toEqual([]);
  }
}
