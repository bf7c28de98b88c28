import { setTimeout as sleep } from 'node:timers/promises';
import sql, { type Sql } from 'sql-template-tag';
import { encodeId } from '../../../src/domain/public-id.ts';
import { type Database, withConnection } from '../../../src/postgres/connection/pool.ts';
import { microsecondsOf } from '../../../src/postgres/lists/instants.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../shop.ts';

/** A writer of each kind commits one transaction after the other. */
export const writers = ['inserts', 'updates', 'replacements'] as const;
export type Writer = (typeof writers)[number];

/** How many commits of writers a response shows. */
export type Shown = Readonly<Partial<Record<Writer, number>>>;

/** What each commit adds to the revenue, in cents. */
const cents = { inserts: 1, updates: 1e5, replacements: 1e10 };

/** The commits that a sum over all purchases shows. */
export const shownBySum = (sum: number): Shown => ({
  inserts: sum % cents.updates,
  updates: Math.floor(sum / cents.updates) % (cents.replacements / cents.updates),
  replacements: Math.floor(sum / cents.replacements),
});

type Commits = {
  begun: number;
  /** The instants after the acknowledgements, by Postgres's clock. */
  readonly acknowledged: bigint[];
};

export type Shop = {
  readonly id: bigint;
  readonly secret: string;
  /** The customer of the updated and the replaced purchase. */
  readonly customer: string;
  /** The purchase that is updated. */
  readonly updated: string;
  readonly commits: Readonly<Record<Writer, Commits>>;
  /** Commits one transaction. Some are long, and some of the updates are too many for a tick. */
  write(writer: Writer, random: RandomSource): Promise<void>;
};

/** More purchases than the changes of a tick (small-steps.ts). */
const others = 600;

export async function addClaimsShop(database: Database, hasBase: boolean): Promise<Shop> {
  const id = await addOrganization(database);
  const [customer, other] = [await addCustomer(database, id), await addCustomer(database, id)];
  const { secret } = await addKey(database, id);
  const marked = {
    ...{ customer_id: customer, purchase_value_in_cents: 0, utm_medium: 'marked' },
    created_at: '2026-01-01T00:00:00Z',
  };
  const updated = await addPurchase(database, id, { ...marked, utm_source: 'updated' });
  await addPurchase(database, id, { ...marked, utm_source: 'replaced' });
  await database.query(sql`
    insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at)
    select ${id}, ${other}, 0, timestamptz '2026-01-02Z' + n * interval '1 minute'
    from generate_series(1, ${hasBase ? 2 * others : others}::int) as n`);
  const commits = {
    inserts: { begun: 0, acknowledged: [] },
    updates: { begun: 0, acknowledged: [] },
    replacements: { begun: 0, acknowledged: [] },
  } satisfies Record<Writer, Commits>;
  const statements: Record<Writer, (random: RandomSource) => Sql> = {
    inserts: () => sql`
      insert into purchases
        (organization_id, customer_id, purchase_value_in_cents, order_number, utm_source)
      values (${id}, ${other}, ${cents.inserts}, ${commits.inserts.begun}::text, 'inserted')`,
    updates: (random) => sql`
      update purchases set updated_at = clock_timestamp(), purchase_value_in_cents =
        purchase_value_in_cents + case when id = ${updated} then ${cents.updates}::bigint else 0 end
      where id = ${updated}
        or (organization_id = ${id} and utm_source is null and ${random.chance(0.03)}::boolean)`,
    replacements: () => sql`
      with replaced as (
        delete from purchases where organization_id = ${id} and utm_source = 'replaced' returning *
      )
      insert into purchases
        (organization_id, customer_id, purchase_value_in_cents, created_at, utm_source, utm_medium)
      select organization_id, customer_id,
        purchase_value_in_cents + ${cents.replacements}::bigint, created_at, utm_source, utm_medium
      from replaced`,
  };
  return {
    id,
    secret,
    customer: encodeId('customer', customer),
    updated: encodeId('purchase', updated),
    commits,
    async write(writer, random) {
      const { [writer]: ofWriter } = commits;
      ofWriter.begun += 1;
      const isLong = random.chance(0.05);
      const { rows } = await withConnection(database, async (connection) => {
        await connection.query('begin');
        await connection.query(statements[writer](random));
        if (isLong) await sleep(random.between(0, 1_000));
        await connection.query('commit');
        return connection.query<{ now: bigint }>(
          `select ${microsecondsOf('clock_timestamp()')} as now`,
        );
      });
      (ofWriter.acknowledged as bigint[]).push(rows[0]?.now as bigint);
    },
  };
}
