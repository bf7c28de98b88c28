import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { FuzzedShop } from './fuzzed-shop.ts';
import { apply } from './operator.ts';
import { expectedRows, storedRows } from './views.ts';

const timeoutMs = 120_000;
const settled = {
  ...{ isLater: true, isCompared: true, problem: null, failures: null, held: null },
  ...{ customers: [], purchases: [] },
};

/**
 * Pauses the writers, and waits until the mapped rows are those of the shop, a later instant is claimed, and
 * nothing is left to do. Deletions that are held are accepted.
 */
export async function untilSettled({ shop, databases, sites }: FuzzedShop): Promise<void> {
  shop.isPaused = true;
  while (shop.writing > 0) await sleep(10);
  const { store: database } = databases;
  const { rows: now } = await database.query('select clock_timestamp() as now');
  const until = performance.now() + timeoutMs;
  for (;;) {
    const { rows } = await database.query(
      `select as_of > $1 as "isLater", structure is not null as "isCompared", problem,
         (select array_agg(mapping_failures::text) from mapping_failures) as failures,
         (select sum(rows)::int from mapping_held_deletions) as held
       from mapping_state`,
      [now[0].now],
    );
    const [state] = rows;
    if (state.held !== null && state.isLater) await apply(databases, shop.roles, true);
    const [expected, stored] = [expectedRows(shop.store, sites), storedRows(sites)];
    const differing = async (of: 'customers' | 'purchases') => {
      const read = async (query: string): Promise<string[]> =>
        (await database.query<{ row: string }>(query)).rows.map(({ row }) => row);
      return difference(await read(expected[of]), await read(stored[of]));
    };
    const found = {
      ...state,
      customers: await differing('customers'),
      purchases: await differing('purchases'),
    };
    const isOver = performance.now() > until;
    if (isOver || JSON.stringify(found) === JSON.stringify(settled)) {
      expect(found).toEqual(settled);
      break;
    }
    await sleep(300);
  }
  shop.isPaused = false;
}

/** Lines that only one has. */
function difference(expected: readonly string[], stored: readonly string[]): string[] {
  const [these, those] = [new Set(expected), new Set(stored)];
  const lines = [
    ...expected.filter((row) => !those.has(row)).map((row) => `- ${row}`),
    ...stored.filter((row) => !these.has(row)).map((row) => `+ ${row}`),
  ];
  if (lines.length === 0 && expected.length !== stored.length) return ['repeated rows'];
  return lines.slice(0, 20);
}
