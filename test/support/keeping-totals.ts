import { type Database, withConnection } from '../../src/postgres/connection/pool.ts';

/** Moves value between purchases, or replaces purchases by others of the same value. */
export async function writeKeepingTotals(
  database: Database,
  organizationId: bigint,
  round: number,
): Promise<void> {
  const some = (count: number) => `select id from purchases where organization_id = $1
    order by md5(id || ' ' || $2::int) limit ${count} for update skip locked`;
  const replaceSome = `
    with deleted as (delete from purchases where id in (${some(5)}) returning *)
    insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
    select organization_id, customer_id, purchase_value_in_cents, 'round ' || $2::int % 50 from deleted`;
  const moveValue = `
    with picked as (select id, row_number() over () as place from (${some(2)}) as any_two),
      changed as (
        select id, case place when 1 then 7 else -7 end as difference
        from picked where (select count(*) from picked) = 2
      )
    update purchases
    set purchase_value_in_cents = purchase_value_in_cents + difference, updated_at = now()
    from changed where purchases.id = changed.id`;
  await withConnection(database, async (connection) => {
    await connection.query('begin');
    await connection.query(round % 3 === 0 ? replaceSome : moveValue, [organizationId, round]);
    await connection.query(round % 7 === 0 ? 'rollback' : 'commit');
  });
}
