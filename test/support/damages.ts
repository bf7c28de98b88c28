/** What can be wrong with one file of the purchases that `addPurchases` adds. */
export type Damage = {
  readonly name: string;
  /** On the file as DuckDB's current database; `id` is a purchase in its middle. */
  statement(id: bigint): string;
  /** What verifying in one part finds: rows that only Postgres has, only the file has, or both. */
  readonly found: {
    readonly missing: number;
    readonly surplus: number;
    readonly different: number;
  };
};

const one = { missing: 0, surplus: 0, different: 1 };

/** Of a hundred purchases. Reading the purchases concerned anew mends each. */
export const repairableDamages: readonly Damage[] = [
  {
    name: 'a cent too much',
    statement: (id) =>
      `update purchase set purchase_value_in_cents = purchase_value_in_cents + 1 where id = ${id}`,
    found: one,
  },
  {
    name: 'a purchase lost',
    statement: (id) => `delete from purchase where id = ${id}`,
    found: { missing: 1, surplus: 0, different: 0 },
  },
  {
    name: 'a purchase twice',
    statement: (id) => `insert into purchase from purchase where id = ${id}`,
    found: { missing: 0, surplus: 1, different: 0 },
  },
  {
    name: 'a purchase that never was',
    statement: (id) =>
      `insert into purchase select * replace (900000 as id) from purchase where id = ${id}`,
    found: { missing: 0, surplus: 1, different: 0 },
  },
  {
    name: 'two values exchanged',
    statement: (id) =>
      `update purchase set purchase_value_in_cents = 2 * 1000 + 2 * 50 + 1 - purchase_value_in_cents
       where id in (${id}, ${id + 1n})`,
    found: { missing: 0, surplus: 0, different: 2 },
  },
  {
    name: 'two customers with exchanged keys',
    statement: () => 'update customer set key = 1 - key where key < 2',
    found: { missing: 0, surplus: 0, different: 67 },
  },
  {
    name: "a purchase with another customer's key",
    statement: (id) => `update purchase set customer_key = (customer_key + 1) % 3 where id = ${id}`,
    found: one,
  },
  {
    name: 'another value in a dictionary',
    statement: () => `update label_utm_source set value = 'sauce 3' where value = 'source 3'`,
    found: { missing: 0, surplus: 0, different: 7 },
  },
  {
    name: 'a purchase moved to another month',
    statement: (id) =>
      `update purchase set created_at = created_at + interval 3 month where id = ${id}`,
    found: one,
  },
  {
    name: 'a purchase counted for another quarter of an hour',
    statement: (id) =>
      `update purchase set created_quarter_hour = created_quarter_hour + 1 where id = ${id}`,
    found: one,
  },
  {
    name: 'a purchase moved beyond all calendars',
    statement: (id) => `update purchase set created_at = 'infinity' where id = ${id}`,
    found: one,
  },
  {
    name: 'a microsecond too late',
    statement: (id) =>
      `update purchase set updated_at = updated_at + interval 1 microsecond where id = ${id}`,
    found: one,
  },
  {
    name: 'an empty text for no text',
    statement: () => `update purchase set coupons = '' where coupons is null and id % 10 = 2`,
    found: { missing: 0, surplus: 0, different: 10 },
  },
  {
    name: 'no text for a text',
    statement: (id) => `update purchase set order_number = null where id = ${id}`,
    found: one,
  },
  {
    name: 'a text that begins in the column before',
    statement: (id) =>
      `update purchase set order_id_on_integration_platform = order_number[1], order_number = order_number[2:]
       where id = ${id}`,
    found: one,
  },
  {
    name: 'no label for a label',
    statement: (id) => `update purchase set platform_key = 0 where id = ${id}`,
    found: one,
  },
  {
    name: 'nothing left at all',
    statement: () => 'delete from purchase',
    found: { missing: 100, surplus: 0, different: 0 },
  },
];

/** Damage that reading purchases anew would leave in place. */
export const lastingDamages: readonly {
  readonly name: string;
  readonly statement: string;
  readonly found: object;
}[] = [
  {
    name: 'a value twice',
    statement: `insert into label_platform select max(key) + 1, 'shopify' from label_platform`,
    found: { dictionary: 'platform', repeatedKeys: 0, repeatedValues: 1, danglingPurchases: 0 },
  },
  {
    name: 'a key twice',
    statement: `insert into label_platform select min(key), 'elsewhere' from label_platform`,
    found: { dictionary: 'platform', repeatedKeys: 1, repeatedValues: 0, danglingPurchases: 0 },
  },
  {
    name: 'a customer twice',
    statement: 'insert into customer from customer where key = 0',
    found: { dictionary: 'customer', repeatedKeys: 1, repeatedValues: 1, danglingPurchases: 0 },
  },
  {
    name: 'an entry lost',
    statement: `delete from label_utm_source where value = 'source 3'`,
    found: { dictionary: 'utm_source', repeatedKeys: 0, repeatedValues: 0, danglingPurchases: 7 },
  },
  {
    name: 'a key without an entry where Postgres has no label',
    statement: 'update purchase set utm_term_key = 7 where id % 10 = 1',
    found: { dictionary: 'utm_term', repeatedKeys: 0, repeatedValues: 0, danglingPurchases: 10 },
  },
];
