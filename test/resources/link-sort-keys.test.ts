import { setTimeout as sleep } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import { describe, expect } from 'vitest';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { test } from '../support/fixtures.ts';
import { addMembers, addRow } from '../support/rows.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';

let organizationId: bigint;
let tagId: bigint;
let segmentId: bigint;
let customerId: bigint;

const it = test
  .extend('link', ({ database }) => async (...ids: bigint[]) => {
    await addMembers(database.pool, 'tag', organizationId, tagId, ids);
    await addMembers(database.pool, 'segment', organizationId, segmentId, ids);
  })
  /** Links whose sort keys differ from those of their customers. */
  .extend('staleLinks', ({ database }) => async (): Promise<unknown[]> => {
    const { rows } = await database.pool.query(
      `select * from (
       select customer_id, customer_created_at, customer_updated_at, customer_total_spent_in_cents
       from customer_tags
       union all
       select customer_id, customer_created_at, customer_updated_at, customer_total_spent_in_cents
       from segment_customers) as links
     join customers on id = customer_id
     where organization_id = $1 and (customer_created_at, customer_updated_at, customer_total_spent_in_cents)
       is distinct from (created_at, updated_at, total_spent_in_cents)`,
      [organizationId],
    );
    return rows;
  })
  /** Resolves when a statement waits for a lock or has ended. */
  .extend(
    'untilBlockedOrDone',
    ({ database }) =>
      async (connection: PoolClient, statement: Promise<unknown>) => {
        const { processID } = connection as unknown as { processID: number };
        let isDone = false;
        statement.then(
          () => {
            isDone = true;
          },
          () => {
            isDone = true;
          },
        );
        for (;;) {
          const { rows } = await database.pool.query(
            'select cardinality(pg_blocking_pids($1)) > 0 as is_blocked',
            [processID],
          );
          if (isDone || rows[0].is_blocked) return;
          await sleep(10);
        }
      },
  );

it.beforeEach(async ({ database }) => {
  const { pool } = database;
  organizationId = await addOrganization(pool);
  tagId = await addRow(pool, 'tags', { organization_id: organizationId });
  segmentId = await addRow(pool, 'segments', { organization_id: organizationId });
  customerId = await addCustomer(pool, organizationId);
});

describe('the sort keys of a link', () => {
  const change = (assignments: string) => () => `update customers set ${assignments}`;
  it.for([
    ['an update of the creation', change(`created_at = '2020-01-02T03:04:05.000006Z'`)],
    ['an update of the update', change(`updated_at = '2030-01-02T03:04:05.000006Z'`)],
    ['an update of the total', change('total_spent_in_cents = 9007199254740993')],
    [
      'an update of several columns',
      change(`created_at = created_at - interval '1 day', total_spent_in_cents = -5, name = 'x'`),
    ],
    [
      'an insert that becomes an update',
      (): string => `insert into customers (id, organization_id) values (${customerId}, ${organizationId})
        on conflict (id) do update set total_spent_in_cents = 77`,
    ],
    [
      'another customer of the link',
      (): string => `insert into customers (id, organization_id, total_spent_in_cents)
        values (${customerId + 1_000_000n}, ${organizationId}, 5);
        update customer_tags set customer_id = ${customerId + 1_000_000n};
        update segment_customers set customer_id = ${customerId + 1_000_000n}`,
    ],
    [
      'a customer that the same statement adds',
      (): string => `with customer as (
          insert into customers (organization_id, total_spent_in_cents)
          values (${organizationId}, 5) returning id)
        insert into customer_tags (organization_id, customer_id, tag_id)
        select ${organizationId}, id, ${tagId} from customer`,
    ],
    [
      'session_replication_role = replica',
      (): string => `set local session_replication_role = replica;
        update customers set total_spent_in_cents = 99`,
    ],
  ] as const)('follow %s', async ([_, statement], { database, link, staleLinks }) => {
    await database.pool.query('delete from customer_tags; delete from segment_customers');
    await link(customerId);
    await database.pool.query(`begin; ${statement()}; commit`);
    expect(await staleLinks()).toEqual([]);
  });

  it('follow changes by triggers of other programs, before and after', async ({
    database,
    link,
    staleLinks,
  }) => {
    await withConnection(database.pool, async (connection) => {
      await link(customerId);
      await connection.query(`
        create function touch() returns trigger language plpgsql as $$
        begin new.updated_at := '2031-01-01T00:00:00Z'; return new; end $$;
        create trigger touch before update on customers for each row execute function touch();
        create function total() returns trigger language plpgsql as $$
        begin
          update customers set total_spent_in_cents = 1234
          where id = new.id and total_spent_in_cents <> 1234;
          return null;
        end $$;
        -- The first AFTER trigger by name: its update ends before the update that fired it.
        create trigger a_total after update on customers for each row execute function total();`);
      try {
        await connection.query(`update customers set name = 'x' where id = $1`, [customerId]);
        expect(await staleLinks()).toEqual([]);
      } finally {
        await connection.query('drop function touch() cascade; drop function total() cascade');
      }
    });
  });

  it('follow writes with session_replication_role = replica', async ({
    database,
    link,
    staleLinks,
  }) => {
    await withConnection(database.pool, async (connection) => {
      await connection.query('set session_replication_role = replica');
      await link(customerId);
      await connection.query('update customers set total_spent_in_cents = 99');
      await connection.query('reset session_replication_role');
    });
    expect(await staleLinks()).toEqual([]);
  });

  it('follow a role that may write only one of the tables, and has temporary tables of the same names', async ({
    database,
    staleLinks,
  }) => {
    await withConnection(database.pool, async (connection) => {
      const role = `writer_${organizationId}_${process.pid}`;
      await connection.query(`
        create role ${role};
        grant insert on customer_tags, segment_customers to ${role};
        grant select (id), update (total_spent_in_cents) on customers to ${role}`);
      try {
        await connection.query(`
          set role ${role};
          create temp table customers (id bigint, created_at text);
          create temp table customer_tags (customer_id bigint);
          set search_path to pg_temp, public`);
        await connection.query(
          'insert into public.customer_tags (organization_id, customer_id, tag_id) values ($1, $2, $3)',
          [organizationId, customerId, tagId],
        );
        await connection.query(
          'update public.customers set total_spent_in_cents = 8 where id = $1',
          [customerId],
        );
      } finally {
        await connection.query('reset role; discard temp; reset search_path');
        await connection.query(`drop owned by ${role}; drop role ${role}`);
      }
    });
    expect(await staleLinks()).toEqual([]);
  });

  it('are not set for a missing customer: Postgres refuses the link', async ({ link }) => {
    await expect(link(999_999_999n)).rejects.toMatchObject({ code: '23503' });
  });
});

describe('concurrent changes of links and customers', () => {
  const addLink = (connection: PoolClient, of = customerId) =>
    connection.query(
      'insert into segment_customers (organization_id, segment_id, customer_id) values ($1, $2, $3)',
      [organizationId, segmentId, of],
    );
  const change = (connection: PoolClient) =>
    connection.query('update customers set total_spent_in_cents = 4321 where id = $1', [
      customerId,
    ]);

  it.for([
    ['the change begins', change, addLink],
    ['the link begins', addLink, change],
  ] as const)(
    'result in equal sort keys if %s first',
    async ([_which, first, second], { database, staleLinks, untilBlockedOrDone }) => {
      await withConnection(database.pool, (one) =>
        withConnection(database.pool, async (other) => {
          await one.query('begin');
          await first(one);
          const secondEnds = second(other);
          await untilBlockedOrDone(other, secondEnds);
          await one.query('commit');
          await secondEnds;
        }),
      );
      const { rows } = await database.pool.query(
        'select customer_total_spent_in_cents as total from segment_customers where customer_id = $1',
        [customerId],
      );
      expect(rows).toEqual([{ total: 4321n }]);
      expect(await staleLinks()).toEqual([]);
    },
  );

  it('do not block other links of the same customer', async ({ database, staleLinks }) => {
    await withConnection(database.pool, (one) =>
      withConnection(database.pool, async (other) => {
        await one.query('begin');
        await addLink(one);
        await addMembers(other, 'tag', organizationId, tagId, [customerId]);
        await one.query('commit');
      }),
    );
    expect(await staleLinks()).toEqual([]);
  });
});
