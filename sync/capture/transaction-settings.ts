import type pg from 'pg';
import sql from 'sql-template-tag';

/** Sets settings `sync.…` of the transaction: values for COPY, which takes no parameters. */
export async function setLocal(
  connection: pg.ClientBase,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const names = Object.keys(settings).map((name) => `sync.${name}`);
  await connection.query(sql`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${Object.values(settings)}::text[]) as setting (name, value)`);
}
