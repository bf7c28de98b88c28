import { isDeepStrictEqual } from 'node:util';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters, StatsDimension } from '../../src/domain/purchase-query.ts';
import type { Database } from '../../src/postgres/pool.ts';

export type Question = {
  readonly name: string;
  ask(engine: PurchaseEngine): Promise<unknown>;
};

/** One organization's purchases, behind both engines. */
export type BothEngines = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly duckdb: PurchaseEngine;
  readonly postgres: PurchaseEngine;
};

const since = BigInt(Date.UTC(2025, 10, 1)) * 1000n;

/** What dashboards and scripts ask for. */
export async function questionsFor(shop: BothEngines): Promise<Question[]> {
  const { organizationId, database } = shop;
  const stats = (name: string, filters: PurchaseFilters, groupBy?: StatsDimension): Question => ({
    name,
    ask: async (engine) => {
      const query = { filters, groupLimit: 10, ...(groupBy === undefined ? {} : { groupBy }) };
      return (await engine.stats(organizationId, query)).result;
    },
  });
  const list = (name: string, filters: PurchaseFilters, startingAfter?: bigint): Question => ({
    name,
    ask: async (engine) => {
      const after = startingAfter === undefined ? {} : { startingAfter };
      return (await engine.list(organizationId, { filters, limit: 25, ...after })).result;
    },
  });
  const { rows } = await database.query<{ id: bigint; customer_id: bigint }>(
    `select id, customer_id from purchases where organization_id = $1 order by created_at
     offset (select count(*) / 3 from purchases where organization_id = $1) limit 1`,
    [organizationId],
  );
  const deep = rows[0] as { id: bigint; customer_id: bigint };
  return [
    stats('statistics', {}),
    stats('statistics by status', {}, 'status'),
    stats('statistics by day', {}, 'day'),
    stats('statistics by utm_campaign', {}, 'utm_campaign'),
    stats('statistics of paid by utm_source', { paymentStatus: 'paid' }, 'utm_source'),
    stats('statistics of two months by day', { createdSince: since }, 'day'),
    list('first page', {}),
    list('deep page', {}, deep.id),
    list('first page of paid', { paymentStatus: 'paid' }),
    list("one customer's purchases", { customerId: deep.customer_id }),
    {
      name: 'one purchase',
      ask: async (engine) => (await engine.get(organizationId, deep.id)).result,
    },
  ];
}

/** No fast wrong answer counts. */
export async function requireSameAnswers(
  shop: BothEngines,
  questions: readonly Question[],
): Promise<void> {
  for (const { name, ask } of questions) {
    if (!isDeepStrictEqual(await ask(shop.duckdb), await ask(shop.postgres))) {
      throw new Error(`the engines differ on: ${name}`);
    }
  }
}
