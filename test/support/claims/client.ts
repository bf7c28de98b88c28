import { formatInstant, parseInstant } from '../../../src/domain/instant.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { checkedFetch } from '../sockets.ts';
import { type Shop, type Shown, shownBySum, type Writer, writers } from './shop.ts';

/** A response, and the commits that it shows. */
type Claim = { readonly name: string; readonly asOf: bigint; readonly shown: Shown };

// biome-ignore lint/suspicious/noExplicitAny: The OpenAPI document describes the body.
type Body = any;
type Item = { readonly id: string; readonly purchase_value_in_cents: number };

const sumOf = <Each>(items: readonly Each[], amountOf: (item: Each) => number): number =>
  items.reduce((sum, item) => sum + amountOf(item), 0);
const revenueOf = (items: readonly { readonly revenue_in_cents: number }[]): number =>
  sumOf(items, (item) => item.revenue_in_cents);
const centsOf = ({ purchase_value_in_cents: cents }: Item): number => cents;

/** The commits that a list of the updated and the replaced purchase shows. */
const markedIn = ({ data }: Body): Shown => {
  const { inserts: _, ...shown } = shownBySum(sumOf(data, centsOf));
  return shown;
};

/** The commits that responses show, by URL. */
const requests: Readonly<Record<string, readonly [url: string, shown: (body: Body) => Shown]>> = {
  statistics: ['purchases/stats?', (body) => shownBySum(body.revenue_in_cents)],
  'statistics by source': [
    'purchases/stats?group_by=utm_source&',
    ({ groups }) => shownBySum(revenueOf(groups)),
  ],
  report: ['purchases/report?', ({ totals }) => shownBySum(totals.revenue_in_cents)],
  'report by source': [
    'purchases/report?group_by=utm_source&measures=revenue_in_cents,customer_count&',
    ({ rows }) => shownBySum(revenueOf(rows)),
  ],
  'time series': [
    'purchases/timeseries?interval=month&',
    ({ series }) => shownBySum(revenueOf(series[0].periods)),
  ],
  cohorts: [
    'purchases/cohorts?interval=month&',
    ({ rows }) => shownBySum(sumOf(rows, ({ periods }: Body) => revenueOf(periods))),
  ],
  'newest purchases': [
    'purchases?limit=10&',
    ({ data }) => ({ inserts: Math.max(0, ...data.map((each: Body) => each.order_number ?? 0)) }),
  ],
  'filtered purchases': ['purchases?utm_medium=marked&', markedIn],
  "a customer's purchases": ['customers/CUSTOMER/purchases?', markedIn],
  'one purchase': [
    'purchases/UPDATED',
    (body) => ({ updates: shownBySum(centsOf(body)).updates ?? 0 }),
  ],
  export: ['purchases/export?format=ndjson&', (body) => shownBySum(sumOf(body, centsOf))],
};

export const claimNames = [...Object.keys(requests), 'changes'];

/** A copy of a shop's purchases that follows the changes, and the instant of the export with which it began. */
type Copy = { cursor: string; readonly cents: Map<string, number>; readonly asOf: bigint };

type Response = { readonly status: number; readonly asOf: bigint; readonly body: Body };

/** A client that sends one request after the other, and requires that each response is true. */
export function createClient(origin: string, random: RandomSource) {
  const copies = new Map<Shop, Copy>();
  const latest = new Map<string, Claim>();

  const get = async (shop: Shop, path: string, minimum?: bigint): Promise<Response> => {
    const response = await checkedFetch(`${origin}/v1/${path}`, {
      headers: {
        authorization: `Bearer ${shop.secret}`,
        ...(minimum !== undefined && { 'x-min-data-as-of': formatInstant(minimum) }),
      },
    });
    const text = await response.text();
    const asOf = parseInstant(response.headers.get('x-data-as-of') ?? '', 'down') ?? 0n;
    if (minimum !== undefined && response.ok && asOf < minimum) {
      throw new Error(`${path} is as of ${asOf} instead of ${minimum}`);
    }
    const isRows = path.includes('ndjson');
    const body = isRows ? text.split('\n').filter(Boolean).map(parse) : parse(text);
    return { status: response.status, asOf, body };
  };
  const parse = (text: string) => JSON.parse(text);

  const requireOk = (path: string, { status, body }: Response): void => {
    if (status !== 200) throw new Error(`${path} is ${status}: ${JSON.stringify(body)}`);
  };

  const begin = async (shop: Shop, page: Response): Promise<Copy> => {
    const file = await get(shop, 'purchases/export?format=ndjson', page.asOf);
    requireOk('an export', file);
    const cents = new Map<string, number>(file.body.map((each: Item) => [each.id, centsOf(each)]));
    return { cursor: page.body.next_cursor, cents, asOf: file.asOf };
  };

  /** Brings the copy up to date. Null without a change feed. */
  const follow = async (shop: Shop): Promise<Omit<Claim, 'name'> | null> => {
    let copy = copies.get(shop);
    copies.delete(shop);
    const limit = random.pick([10, 100, 1_000]);
    for (;;) {
      const cursor = copy === undefined ? '' : `&cursor=${copy.cursor}`;
      const page = await get(shop, `purchases/changes?limit=${limit}${cursor}`, copy?.asOf);
      // Nothing is published yet, or a replaced log has been removed.
      if (page.status !== 200) return null;
      copy ??= await begin(shop, page);
      const { data, next_cursor: next, has_more: hasMore } = page.body;
      copy.cursor = next;
      for (const change of data) {
        if (change.deleted) copy.cents.delete(change.id);
        else copy.cents.set(change.id, centsOf(change));
      }
      if (cursor === '' || hasMore) continue;
      copies.set(shop, copy);
      return { asOf: page.asOf, shown: shownBySum(sumOf([...copy.cents.values()], Number)) };
    }
  };

  const read = async (shop: Shop, name: string): Promise<Omit<Claim, 'name'> | null> => {
    if (name === 'changes') return follow(shop);
    const [url, shownIn] = requests[name] as (typeof requests)[string];
    // Some requests are repeated, and others are not cached.
    const filter = random.chance(0.5) ? '' : `max_value_in_cents=${9e15 - random.integer(1e6)}`;
    const path = url.replace('CUSTOMER', shop.customer).replace('UPDATED', shop.updated);
    const own = random.pick(writers.map((each) => shop.commits[each].acknowledged.at(-1)));
    const response = await get(
      shop,
      path.endsWith('&') || path.endsWith('?') ? path + filter : path,
      random.chance(0.3) ? own : undefined,
    );
    requireOk(path, response);
    return { asOf: response.asOf, shown: shownIn(response.body) };
  };

  return {
    /** Sends a request and checks its response. False if the shop has no change feed. */
    async check(shop: Shop, name: string): Promise<boolean> {
      const found = await read(shop, name);
      if (found === null) return false;
      const claim = { ...found, name };
      // Postgres may have served a later instant than the files have, which the change feed reads.
      const sequence = `${shop.id} ${name === 'changes'}`;
      requireTrue(shop, claim, latest.get(sequence));
      const shown = { ...latest.get(sequence)?.shown, ...claim.shown };
      latest.set(sequence, { ...claim, shown });
      return true;
    },
  };
}

/** Throws if the claim is false. `before` is the last claim to the client, with all that it has been shown. */
function requireTrue(shop: Shop, claim: Claim, before: Claim | undefined): void {
  const { asOf, shown } = claim;
  const fail = (reason: string) => {
    const { begun, acknowledged } = shop.commits.updates;
    const others = JSON.stringify(
      { claim, before, begun, last: acknowledged.at(-1) },
      (_, value) => (typeof value === 'bigint' ? String(value) : value),
    );
    throw new Error(`${claim.name} of organization ${shop.id} ${reason}: ${others}`);
  };
  if (before !== undefined && asOf < before.asOf) {
    fail(`went back by ${before.asOf - asOf} μs`);
  }
  for (const [writer, count] of Object.entries(shown) as [Writer, number][]) {
    const { begun, acknowledged } = shop.commits[writer];
    const due = acknowledged.filter((instant) => instant <= asOf);
    if (count < due.length) {
      fail(`lacks ${writer} from ${asOf - (due[count] as bigint)} μs before its instant`);
    }
    if (count > begun) fail(`shows ${count} ${writer} of ${begun}`);
    if (count < (before?.shown[writer] ?? 0)) fail(`lacks ${writer} that were shown before`);
  }
}
