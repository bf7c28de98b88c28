import { describe, expect } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test as it } from '../support/fixtures.ts';
import { withBuilder } from '../support/held-builds.ts';
import { untilShown } from '../support/published.ts';

describe('a base that has a purchase twice, because it moved during the load', () => {
  it('counts first purchases, customers and cohorts as Postgres does', async ({
    database: { pool },
    directory,
    organizationId,
    engine,
    openWorker,
  }) => {
    let moved: Promise<unknown> | null = null;
    const move = `update purchases set created_at = '2025-06-01'
      where organization_id = $1 and created_at < '2025-01-01 00:03Z'`;
    const worker = await openWorker({
      maxPurchasesWithoutBase: 0,
      loadChunkRows: 5,
      replace: withBuilder((builder) => ({
        load: (organization, build, ...rest) =>
          builder.load(
            organization,
            {
              ...build,
              onProgress(progress) {
                build.onProgress(progress);
                if (progress.loaded >= 5) moved ??= pool.query(move, [organizationId]);
              },
            },
            ...rest,
          ),
      })),
    });
    await pool.query(
      'insert into customers (organization_id) select $1 from generate_series(1, 60)',
      [organizationId],
    );
    await pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, payment_status)
       select $1, id, 100, timestamptz '2025-01-01Z' + row_number() over (order by id) * interval '1 minute', 'paid'
       from customers where organization_id = $1`,
      [organizationId],
    );
    await worker.once([organizationId]);
    await moved;
    await untilShown(engine, directory, organizationId);
    const measures = ['customer_count', 'new_customer_count', 'returning_customer_count'] as const;
    const orderBy = { by: 'customer_count', isDescending: true } as const;
    const report = { filters: {}, measures, orderBy, limit: 100 };
    const cohorts = { filters: {}, interval: 'month', periods: 2 } as const;
    const answers = [engine, createPostgresEngine(pool)].map(async (each) => [
      (await each.report(organizationId, { ...report, groupBy: ['month'] })).result,
      (await each.report(organizationId, { ...report, groupBy: ['customer_type'] })).result,
      (await each.cohorts(organizationId, cohorts)).result,
    ]);
    const [ofFiles, ofPostgres] = await Promise.all(answers);
    expect(ofFiles).toEqual(ofPostgres);
    expect(ofFiles?.[2]).toMatchObject({
      cohorts: [{ customerCount: 58n }, { customerCount: 2n }],
    });
  });
});
