import { type PurchaseColumn, purchaseColumns } from '../../src/domain/purchase.ts';
import type { Connection, Database } from '../../src/postgres/connection/pool.ts';
import { createApiKey, type Scope } from '../../src/postgres/keys/api-keys.ts';
import { registerRow, registerSecret } from './logged-lines.ts';

/** Adds an organization and returns its id. */
export async function addOrganization(database: Database, name = 'Shop'): Promise<bigint> {
  const { rows } = await database.query<{ id: bigint }>(
    'insert into organizations (name) values ($1) returning id',
    [name],
  );
  return (rows[0] as { id: bigint }).id;
}

/** Adds an API key and returns its secret. */
export async function addKey(
  database: Database,
  organizationId: bigint,
  options: { scopes?: readonly Scope[]; expiresAt?: Date; name?: string } = {},
): Promise<{ id: bigint; secret: string }> {
  const key = await createApiKey(database, {
    organizationId,
    name: options.name ?? 'Test',
    scopes: options.scopes ?? ['read'],
    expiresAt: options.expiresAt ?? null,
  });
  registerSecret(key.secret);
  return key;
}

export async function addCustomer(database: Database, organizationId: bigint): Promise<bigint> {
  const { rows } = await database.query<{ id: bigint }>(
    'insert into customers (organization_id) values ($1) returning id',
    [organizationId],
  );
  return (rows[0] as { id: bigint }).id;
}

/** The columns of a purchase as parameters of Postgres. Instants are ISO 8601 text. */
export type PurchaseValues = Partial<
  Record<PurchaseColumn['name'], bigint | number | string | null>
> & { readonly customer_id: bigint };

/** Adds a purchase and returns its id. */
export async function addPurchase(
  connection: Database | Connection,
  organizationId: bigint,
  values: PurchaseValues,
): Promise<bigint> {
  const given: PurchaseValues = { purchase_value_in_cents: 100, ...values };
  registerRow(given);
  const columns = purchaseColumns.map(({ name }) => name).filter((name) => name in given);
  const { rows } = await connection.query<{ id: bigint }>(
    `insert into purchases (organization_id, ${columns.join(', ')})
     values ($1, ${columns.map((_, index) => `$${index + 2}`).join(', ')})
     returning id`,
    [organizationId, ...columns.map((name) => given[name])],
  );
  return (rows[0] as { id: bigint }).id;
}

/** Adds purchases of one customer: of 1 cent, of 2 cents and so on up to `count`. */
export async function addPurchases(
  connection: Database | Connection,
  organizationId: bigint,
  customerId: bigint,
  count: number,
): Promise<void> {
  await connection.query(
    `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
     select $1, $2, n from generate_series(1, $3::bigint) as n`,
    [organizationId, customerId, count],
  );
}

/** Changes every purchase. A condition may follow with `where`. */
export const addACent =
  'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1';

/** Writes in a transaction whose entries of the change log are lost. */
export async function withoutCapture(database: Database, statement: string): Promise<void> {
  await database.query(`
    begin;
    ${statement};
    delete from purchase_changes where transaction_id = pg_current_xact_id();
    commit`);
}
