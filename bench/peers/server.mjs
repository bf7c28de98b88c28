// The peer: drizzle-cube's semantic layer over the table of plain SQL, behind its adapter for
// Fastify. It has no authentication. Its packages are not installed with the project.

import { cubePlugin } from 'drizzle-cube/adapters/fastify';
import { defineCube } from 'drizzle-cube/server';
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, pgSchema, text, timestamp } from 'drizzle-orm/pg-core';
import Fastify from 'fastify';
import pg from 'pg';
import { purchaseColumns } from '../../src/domain/purchase.ts';

const { DATABASE_URL, ORGANIZATION_ID, HOST, PORT } = process.env;

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

const app = Fastify();
await app.register(cubePlugin, {
  cubes: [cube],
  drizzle: drizzle(new pg.Pool({ connectionString: DATABASE_URL, max: 10 })),
  schema: { purchases },
  engineType: 'postgres',
  extractSecurityContext: () => ({ organizationId: Number(ORGANIZATION_ID) }),
  mcp: { enabled: false },
});
console.log(`Listening on ${await app.listen({ host: HOST, port: Number(PORT) })}`);
