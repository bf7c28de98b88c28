/** Damage of a file with a hundred purchases of `addPurchases`. */
export type Damage = {
  readonly name: string;
  /** SQL on the file as DuckDB's current database. `id` is the purchase in the middle. */
  statement(id: bigint): string;
  /** Purchases of the base then lack their previous ones, which only a rebuild repairs. */
  readonly breaksOrder?: true;
  /** Purchases that a verification in parts of 40 purchases finds, once in each part. */
  readonly found: number;
};

/** The worker repairs these by reading purchases from Postgres again, unless the order is wrong then. */
export const repairableDamages: readonly Damage[] = [
  {
    name: 'an amount with one more cent',
    statement: (id) =>
      `update purchase set purchase_value_in_cents = purchase_value_in_cents + 1 where id = ${id}`,
    found: 1,
  },
  {
    name: 'a missing purchase',
    breaksOrder: true,
    statement: (id) => `delete from purchase where id = ${id}`,
    found: 1,
  },
  {
    name: 'a duplicate purchase',
    breaksOrder: true,
    statement: (id) => `insert into purchase from purchase where id = ${id}`,
    found: 1,
  },
  {
    name: 'a purchase that Postgres does not have',
    breaksOrder: true,
    statement: (id) =>
      `insert into purchase select * replace (900000 as id) from purchase where id = ${id}`,
    found: 1,
  },
  {
    name: 'exchanged amounts of two purchases',
    statement: (id) =>
      `update purchase set purchase_value_in_cents = 2 * 1000 + 2 * 50 + 1 - purchase_value_in_cents
       where id in (${id}, ${id + 1n})`,
    found: 2,
  },
  {
    name: 'exchanged keys of two customers',
    statement: () => 'update customer set key = 1 - key where key < 2',
    found: 67,
  },
  {
    name: 'the key of another customer',
    breaksOrder: true,
    statement: (id) => `update purchase set customer_key = (customer_key + 1) % 3 where id = ${id}`,
    found: 1,
  },
  {
    name: 'another value in a dictionary',
    statement: () => `update label_utm_source set value = 'sauce 3' where value = 'source 3'`,
    found: 7,
  },
  {
    name: 'a creation in another month',
    breaksOrder: true,
    statement: (id) =>
      `update purchase set created_at = created_at + interval 3 month where id = ${id}`,
    found: 2,
  },
  {
    name: 'a wrong quarter hour of the creation',
    breaksOrder: true,
    statement: (id) =>
      `update purchase set created_quarter_hour = created_quarter_hour + 1 where id = ${id}`,
    found: 1,
  },
  {
    name: 'an infinite creation',
    breaksOrder: true,
    statement: (id) => `update purchase set created_at = 'infinity' where id = ${id}`,
    found: 2,
  },
  {
    name: 'an update one microsecond later',
    statement: (id) =>
      `update purchase set updated_at = updated_at + interval 1 microsecond where id = ${id}`,
    found: 1,
  },
  {
    name: 'empty texts in place of NULL',
    statement: () => `update purchase set coupons = '' where coupons is null and id % 10 = 2`,
    found: 10,
  },
  {
    name: 'NULL in place of a text',
    statement: (id) => `update purchase set order_number = null where id = ${id}`,
    found: 1,
  },
  {
    name: 'a text whose first character is in another column',
    statement: (id) =>
      `update purchase set order_id_on_integration_platform = order_number[1], order_number = order_number[2:]
       where id = ${id}`,
    found: 1,
  },
  {
    name: 'a label that is absent',
    statement: (id) => `update purchase set platform_key = 0 where id = ${id}`,
    found: 1,
  },
  {
    name: 'an empty table',
    statement: () => 'delete from purchase',
    found: 100,
  },
];

/** Only a rebuild repairs these. */
export const dictionaryDamages: readonly {
  readonly name: string;
  readonly statement: string;
  readonly dictionary: string;
}[] = [
  {
    name: 'a duplicate value',
    statement: `insert into label_platform select max(key) + 1, 'shopify' from label_platform`,
    dictionary: 'platform',
  },
  {
    name: 'a duplicate key',
    statement: `insert into label_platform select min(key), 'elsewhere' from label_platform`,
    dictionary: 'platform',
  },
  {
    name: 'a duplicate customer',
    statement: 'insert into customer from customer where key = 0',
    dictionary: 'customer',
  },
  {
    name: 'a missing entry',
    statement: `delete from label_utm_source where value = 'source 3'`,
    dictionary: 'utm_source',
  },
  {
    name: 'a missing entry for purchases without this label',
    statement: 'update purchase set utm_term_key = 7 where id % 10 = 1',
    dictionary: 'utm_term',
  },
];
