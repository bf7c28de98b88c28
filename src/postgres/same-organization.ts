import pg from 'pg';

/**
 * Validates the foreign keys of migration 008 outside a transaction, because a validation reads
 * whole tables. Returns the tables with rows of two organizations. Their foreign keys stay NOT
 * VALID, which Postgres enforces for later writes.
 */
export async function validateSameOrganization(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ table: string; name: string }>(`
    select relname as table, conname as name
    from pg_constraint join pg_class on pg_class.oid = conrelid
    where connamespace = current_schema()::regnamespace
      and conname like '%\\_of\\_same\\_organization' and not convalidated
    order by relname, conname`);
  const violated = new Set<string>();
  for (const { table, name } of rows) {
    const [from, key] = [pg.escapeIdentifier(table), pg.escapeIdentifier(name)];
    try {
      await client.query(`alter table ${from} validate constraint ${key}`);
    } catch (error) {
      if ((error as { code?: unknown }).code !== foreignKeyViolation) throw error;
      violated.add(table);
    }
  }
  return [...violated];
}

const foreignKeyViolation = '23503';
