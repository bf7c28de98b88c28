import sql, { type Sql } from 'sql-template-tag';
import type { Connection } from '../../../src/postgres/connection/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { awkwardAmounts, awkwardInstants, awkwardLabels } from '../awkward-purchases.ts';
import { addPurchase, type PurchaseValues } from '../shop.ts';

/** A random change of the purchases of an organization. */
export type Statement = (
  connection: Connection,
  organization: bigint,
  random: RandomSource,
) => Promise<void>;

/** Bulk inserts stop at this number of purchases. */
const maxPurchases = 4_000;

/** Random purchases that no other transaction has locked. */
const some = (organization: bigint, random: RandomSource, max: number): Sql => sql`(
  select id from purchases where organization_id = ${organization}
  order by hashint8extended(id, ${random.integer(2 ** 31)})
  limit ${1 + random.integer(max)} for update skip locked)`;

const anyCustomer = (organization: bigint, random: RandomSource): Sql => sql`(
  select id from customers where organization_id = ${organization}
  order by hashint8extended(id, ${random.integer(2 ** 31)}) limit 1)`;

const statement =
  (sqlOf: (organization: bigint, random: RandomSource) => Sql): Statement =>
  async (connection, organization, random) => {
    await connection.query(sqlOf(organization, random));
  };

async function customerOf(
  connection: Connection,
  organization: bigint,
  random: RandomSource,
): Promise<bigint | null> {
  const { rows } = await connection.query<{ id: bigint }>(
    sql`select id from customers where organization_id = ${organization} order by id`,
  );
  return rows.length === 0 ? null : random.pick(rows).id;
}

function awkwardValues(customer: bigint, random: RandomSource): PurchaseValues {
  const label = () => (random.chance(0.3) ? null : random.pick(awkwardLabels));
  return {
    customer_id: customer,
    purchase_value_in_cents: random.pick(awkwardAmounts),
    created_at: random.pick(awkwardInstants),
    order_number: label(),
    coupons: random.chance(0.3) ? '[{"id": "c1", "code": "A\\"B,\\n", "value": 10.50}]' : null,
    subtotal_amount_in_cents: random.chance(0.5) ? random.pick(awkwardAmounts) : null,
    payment_status: random.pick(['paid', 'pending', 'refunded', null]),
    currency: random.pick(['BRL', 'USD', '', null]),
    utm_source: label(),
    utm_campaign: label(),
    utm_term: label(),
  };
}

const insertFew: Statement = async (connection, organization, random) => {
  const customer = await customerOf(connection, organization, random);
  if (customer === null) return;
  for (let left = 1 + random.integer(5); left > 0; left -= 1) {
    await addPurchase(connection, organization, awkwardValues(customer, random));
  }
};

const insertMany = statement(
  (organization, random) => sql`
    insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at,
      order_number, utm_source, utm_medium)
    select ${organization}, customers.id, n, '2024-01-01'::timestamptz + n * interval '3 hours',
      'order ' || n, 'source ' || n % ${1 + random.integer(40)}, ${random.pick(awkwardLabels)}
    from generate_series(1, ${500 + random.integer(2_500)}) as n
    join (select id, row_number() over (order by id) as position, count(*) over () as count
      from customers where organization_id = ${organization}) as customers
      on position = 1 + n % count
    where (select count(*) from purchases where organization_id = ${organization}) < ${maxPurchases}`,
);

const changeAmounts = statement(
  (organization, random) => sql`
    update purchases set updated_at = now(), total_amount_in_cents = ${random.integer(9_999)},
      -- The exclusive or of the least and the greatest amount is in range too.
      purchase_value_in_cents = purchase_value_in_cents # ${random.integer(200)}
    where id in ${some(organization, random, random.chance(0.2) ? 2_000 : 20)}`,
);

const changeLabels = statement(
  (organization, random) => sql`
    update purchases set status = ${random.pick(['open', 'closed', null])},
      utm_source = ${random.pick(awkwardLabels)},
      utm_content = ${`content ${random.integer(300)}`}
    where id in ${some(organization, random, random.chance(0.2) ? 2_000 : 20)}`,
);

const moveInTime = statement(
  (organization, random) => sql`
    update purchases set created_at = '2020-01-01'::timestamptz
      + ${random.integer(2_000)} * interval '1 day' + id % 7 * interval '1 month'
    where id in ${some(organization, random, random.chance(0.2) ? 1_000 : 20)}`,
);

const moveToCustomer = statement(
  (organization, random) => sql`
    update purchases set customer_id = ${anyCustomer(organization, random)}
    where id in ${some(organization, random, 30)} and exists ${anyCustomer(organization, random)}`,
);

const moveToOrganization = statement(
  (organization, random) => sql`
    update purchases set (organization_id, customer_id) = (
      select organization_id, id from customers
      order by hashint8extended(id, ${random.integer(2 ** 31)}) limit 1)
    where id in ${some(organization, random, random.chance(0.1) ? 500 : 20)}
      and exists (select from customers)`,
);

const deleteSome = statement(
  (organization, random) => sql`delete from purchases
      where id in ${some(organization, random, random.chance(0.3) ? 1_000 : 20)}`,
);

/** A new purchase has the id of a deleted purchase. */
const replace: Statement = async (connection, organization, random) => {
  const { rows } = await connection.query<{ id: bigint; customer_id: bigint }>(
    sql`delete from purchases where id in ${some(organization, random, 3)}
        returning id, customer_id`,
  );
  for (const { id, customer_id: customer } of rows) {
    await addPurchase(connection, organization, { ...awkwardValues(customer, random), id });
  }
};

const renumber = statement(
  (organization, random) => sql`update purchases set id = ${2 ** 40 + random.integer(2 ** 40)}
      where id in ${some(organization, random, 1)}`,
);

const changeNothing = statement(
  (organization, random) =>
    sql`update purchases set utm_term = utm_term where id in ${some(organization, random, 50)}`,
);

const addCustomers = statement(
  (organization, random) => sql`insert into customers (organization_id)
      select ${organization} from generate_series(1, ${1 + random.integer(20)})`,
);

const deleteCustomers = statement(
  (organization, random) => sql`
    delete from customers where id in (
      select id from customers where organization_id = ${organization}
      order by hashint8extended(id, ${random.integer(2 ** 31)})
      limit ${1 + random.integer(3)} for update skip locked)`,
);

/** A statement that is listed twice is twice as probable. */
export const statements: readonly Statement[] = [
  ...[insertFew, insertFew, insertFew, insertMany, insertMany],
  ...[changeAmounts, changeAmounts, changeLabels, changeLabels, moveInTime, moveInTime],
  ...[moveToCustomer, moveToOrganization, moveToOrganization],
  ...[deleteSome, deleteSome, replace, renumber, changeNothing, addCustomers, deleteCustomers],
];

export const statementsOnPurchases = statements.filter((one) => one !== deleteCustomers);

export const firstStatements: readonly Statement[] = [addCustomers, insertMany, insertFew];
