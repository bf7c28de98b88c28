import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows } from '../../duckdb/connection.ts';
import { countedColumns } from '../format/layout.ts';
import { previousQuarterNames } from '../format/previous-purchases.ts';
import type { StoreCatalogs } from '../format/relations.ts';

/**
 * The table `purchase_before` of a delta: all purchases that the base has of customers with changes. With the
 * changes, it also tells all their purchases now. So numbers of customers, and first purchases, are those of the
 * base, without those of these customers before, and with theirs now.
 */
export type CustomersBefore = {
  /**
   * Adds the customers of the changes since the last call. Returns the number of purchases; null if it is greater
   * than the maximum. After a failure, the delta must be created again.
   */
  update(connection: DuckDBConnection): Promise<number | null>;
};

/** Those that statistics need, and the previous purchases by which the base tells first ones. */
const columnsBefore = `${countedColumns}, ${previousQuarterNames}`;

export function createCustomersBefore(
  { base, delta }: StoreCatalogs,
  maxPurchases: number,
): CustomersBefore {
  const purchases = raw(`${delta}.purchase_before`);
  const customers = raw(`${delta}.customer_before`);
  let count: number | null = 0;
  let rounds = 0;
  return {
    async update(connection) {
      if (count === null) return null;
      // An update that failed may have taken its tables back.
      await connection.run(`
        create table if not exists ${delta}.customer_before (
          customer_key integer not null, round integer not null
        );
        create table if not exists ${delta}.purchase_before as
        select ${columnsBefore} from ${base}.purchase limit 0`);
      rounds += 1;
      const round = raw(String(rounds));
      // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
      const [added] = await queryRows(
        connection,
        sql`
          insert into ${customers}
          select customer_key, ${round}
          from (
            select xor(customer_key, 0) as customer_key from ${raw(delta)}.change
            where sign <> 0 group by 1
          )
          anti join ${customers} as known using (customer_key)`,
      );
      if (added?.[0] === 0n) return count;
      const [inserted] = await queryRows(
        connection,
        sql`
          insert into ${purchases}
          select ${raw(columnsBefore)} from ${raw(base)}.purchase
          semi join (select customer_key from ${customers} where round = ${round}) as added
            using (customer_key)
          limit ${raw(String(maxPurchases - count + 1))}`,
      );
      count += Number(inserted?.[0]);
      if (count <= maxPurchases) return count;
      count = null;
      await connection.run(`truncate ${delta}.purchase_before`);
      return null;
    },
  };
}
