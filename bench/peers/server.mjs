// The peer: drizzle-cube's semantic layer over the table of plain SQL, behind its adapter for
// Fastify. It checks the key of each request as the service does. Its packages are not installed with the project.

import { createHash } from 'node:crypto';
import { cubePlugin } from 'drizzle-cube/adapters/fastify';
import { defineCube } from 'drizzle-cube/server';
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, pgSchema, text, timestamp } from 'drizzle-orm/pg-core';
import Fastify from 'fastify';
import pg from 'pg';
import { purchaseColumns } from '../../src/domain/purchase.ts';

const { DATABASE_URL, HOST, PORT } = process.env;

const integer = (name) => bigint(name, { mode: 'number' });
const columnsOfKinds = {
  purchase_id: integer,
  customer_id: integer,
  cents: integer,
  instant: (name) => timestamp(name, { withTimezone: true, mode: 'string' }),
};
const columns = purchaseColumns.map(({ name, kind }) => [
  name,
  (columnsOfKinds[kind] ?? text)(name),
]);
const purchases = pgSchema('plain').table('purchases', {
  organization_id: integer('organization_id').notNull(),
  ...Object.fromEntries(columns),
});

const typesOfKinds = {
  purchase_id: 'number',
  customer_id: 'number',
  cents: 'number',
  instant: 'time',
};
const dimensions = purchaseColumns.map(({ name, kind }) => [
  name,
  { name, type: typesOfKinds[kind] ?? 'string', sql: purchases[name] },
]);
const cube = defineCube('Purchases', {
  sql: ({ securityContext }) => ({
    from: purchases,
    where: eq(purchases.organization_id, securityContext.organizationId),
  }),
  measures: {
    // Every index has this column, so index-only scans can count it.
    count: { name: 'count', type: 'count', sql: purchases.organization_id },
    customers: { name: 'customers', type: 'countDistinct', sql: purchases.customer_id },
    revenue: { name: 'revenue', type: 'sum', sql: purchases.purchase_value_in_cents },
  },
  dimensions: Object.fromEntries(dimensions),
});

const keys = new pg.Pool({ connectionString: DATABASE_URL, max: 10 });

/** The organization of a valid key. */
async function organizationOf({ headers: { authorization = '' } }) {
  const secret = authorization.replace(/^Bearer /, '');
  const { rows } = await keys.query({
    name: 'find-organization',
    text: `
      select organizations.id
      from api_keys join organizations on organizations.id = organization_id
      where secret_hash = $1 and revoked_at is null and (expires_at is null or expires_at > now())`,
    values: [createHash('sha256').update(secret).digest()],
  });
  if (rows.length === 0) throw new Error('the key is not valid');
  return { organizationId: Number(rows[0].id) };
}

const app = Fastify();
await app.register(cubePlugin, {
  cubes: [cube],
  drizzle: drizzle(new pg.Pool({ connectionString: DATABASE_URL, max: 10 })),
  schema: { purchases },
  engineType: 'postgres',
  extractSecurityContext: organizationOf,
  mcp: { enabled: false },
});
console.log(`Listening on ${await app.listen({ host: HOST, port: Number(PORT) })}`);
