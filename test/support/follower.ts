import type { LightMyRequestResponse } from 'fastify';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { serializePurchase } from '../../src/resources/purchases/purchase-wire.ts';

type Item = { readonly id: string; readonly deleted?: boolean };
type Page = { readonly data: Item[]; readonly has_more: boolean; readonly next_cursor: string };
type Get = (url: string, headers?: Record<string, string>) => Promise<LightMyRequestResponse>;

/** A copy of the purchases of an organization, kept by the change feed. */
export type Follower = {
  /** What a follower writes to its disk. A follower that is killed goes on from here. */
  readonly cursor: string | null;
  readonly purchases: ReadonlyMap<string, Item>;
  /** How often the copy was made from an export. */
  readonly copies: number;
  /** Applies one page, or makes the copy. False if there are no more changes at present. */
  step(limit?: number): Promise<boolean>;
  /** Applies all changes up to now. */
  catchUp(limit?: number): Promise<void>;
};

const restart = 'the copy must be made again';

/** `get` sends requests with the key of the organization. */
export function createFollower(get: Get): Follower {
  let cursor: string | null = null;
  let purchases = new Map<string, Item>();
  let copies = 0;

  const read = async (url: string, headers = {}): Promise<LightMyRequestResponse | null> => {
    const response = await get(url, headers);
    if (response.statusCode === 200) return response;
    // Other conflicts end: the files are being published.
    const isUnknown = response.statusCode === 409 && response.json().error.param === 'cursor';
    if (isUnknown) throw new Error(restart);
    if (response.statusCode === 409) return null;
    throw new Error(`${url}: ${response.statusCode} ${response.body}`);
  };

  const copy = async (): Promise<boolean> => {
    const begin = await read('/v1/purchases/changes');
    if (begin === null) return true;
    const minimum = { 'x-min-data-as-of': String(begin.headers['x-data-as-of']) };
    const exported = await read('/v1/purchases/export?format=ndjson', minimum);
    if (exported === null) return true;
    const lines = exported.body.split('\n').filter((line) => line !== '');
    purchases = new Map(
      lines.map((line) => JSON.parse(line) as Item).map((item) => [item.id, item]),
    );
    cursor = (begin.json() as Page).next_cursor;
    copies += 1;
    return true;
  };

  const apply = async (limit: number): Promise<boolean> => {
    const response = await read(`/v1/purchases/changes?cursor=${cursor}&limit=${limit}`);
    if (response === null) return true;
    const page = response.json() as Page;
    for (const { deleted, ...item } of page.data) {
      if (deleted === true) purchases.delete(item.id);
      else purchases.set(item.id, item);
    }
    cursor = page.next_cursor;
    return page.has_more;
  };

  const step = (limit = 100): Promise<boolean> =>
    (cursor === null ? copy() : apply(limit)).catch((error: Error) => {
      if (error.message !== restart) throw error;
      cursor = null;
      return true;
    });

  return {
    get cursor() {
      return cursor;
    },
    get purchases() {
      return purchases;
    },
    get copies() {
      return copies;
    },
    step,
    async catchUp(limit) {
      while (await step(limit));
    },
  };
}

/** The purchases that Postgres has now, by id, as a follower has them. */
export async function purchasesById(
  database: Database,
  organizationId: bigint,
): Promise<Map<string, unknown>> {
  const engine = createPostgresEngine(database);
  const { result } = await engine.list(organizationId, { filters: {}, limit: 1_000_000 });
  const plain = (_name: string, value: unknown) =>
    typeof value === 'bigint' ? Number(value) : value;
  return new Map(
    result.purchases
      .map((purchase) => JSON.parse(JSON.stringify(serializePurchase(purchase), plain)))
      .map((item) => [item.id, item]),
  );
}
