type Shop = {
  readonly add: (count: number, seed: number) => Promise<void>;
  readonly query: (statement: string) => Promise<unknown>;
  readonly sync: () => Promise<void>;
  readonly compact: () => Promise<void>;
  /** Another organization, and a customer of it. */
  readonly other: bigint;
  readonly otherCustomer: bigint;
};

type Mixture = {
  readonly name: string;
  /** Whether a load writes a base. */
  readonly hasBase: boolean;
  prepare(shop: Shop): Promise<void>;
};

const loaded: Mixture = {
  name: 'in a base',
  hasBase: true,
  prepare: async ({ add, query, sync }) => {
    await add(250, 1);
    await query(`update purchases set currency = 'BRL'`);
    await sync();
  },
};

const changed: readonly Mixture[] = [
  {
    name: 'in a log without a base',
    hasBase: false,
    prepare: async ({ add, query, sync }) => {
      await sync();
      await add(200, 2);
      await sync();
      await query(`update purchases set utm_source = 'summer', currency = 'BRL',
        purchase_value_in_cents = purchase_value_in_cents / 2 where id % 3 = 0`);
      await query('delete from purchases where id % 7 = 0');
      await add(50, 9);
      await sync();
    },
  },
  {
    name: 'in base and log, updated and deleted',
    hasBase: true,
    prepare: async ({ add, query, sync }) => {
      await add(200, 3);
      await sync();
      await add(100, 4);
      await sync();
      await query(`update purchases set utm_source = 'summer', payment_status = null,
        purchase_value_in_cents = purchase_value_in_cents / 2 where id % 5 = 0`);
      await query('delete from purchases where id % 11 = 0');
      await sync();
      // Some for the second time.
      await query(`update purchases set utm_source = null, payment_status = 'paid',
        created_at = '2025-05-05', updated_at = now() where id % 10 < 3`);
      await sync();
    },
  },
  {
    name: 'in base and log, inserted again and moved away and back',
    hasBase: true,
    prepare: async ({ add, query, sync, other, otherCustomer }) => {
      await add(200, 5);
      await query(`update purchases set currency = 'BRL' where currency is not null`);
      await sync();
      await query('create temp table kept as table purchases');
      await query('delete from purchases where id % 3 = 0');
      await query(
        `update purchases set organization_id = ${other}, customer_id = ${otherCustomer} where id % 4 = 1`,
      );
      await sync();
      await query(`insert into purchases overriding system value
        select * from kept where id % 3 = 0 and id % 2 = 0`);
      await query(`update purchases set organization_id = kept.organization_id,
        customer_id = kept.customer_id, payment_status = 'voided'
        from kept where kept.id = purchases.id and kept.id % 8 = 1`);
      await sync();
    },
  },
  {
    name: 'in a base whose rows are all superseded',
    hasBase: true,
    prepare: async ({ add, query, sync }) => {
      await add(200, 6);
      await sync();
      await query('delete from purchases where id % 2 = 0');
      await query(`update purchases set currency = 'USD', utm_source = 'new'`);
      await sync();
    },
  },
  {
    name: 'in a base that was compacted, and in a log',
    hasBase: true,
    prepare: async ({ add, query, sync, compact }) => {
      await add(200, 7);
      await sync();
      await add(100, 8);
      await query(`update purchases set payment_status = 'refunded' where id % 3 = 0`);
      await query('delete from purchases where id % 7 = 0');
      await compact();
      await query(`update purchases set utm_source = 'VERÃO', currency = null where id % 4 = 0`);
      await sync();
    },
  },
];

/** The parts that hold an organization's rows. `prepare` writes them. */
export const mixtures: readonly Mixture[] = [loaded, ...changed];
