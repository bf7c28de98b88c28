import { decodeId } from '../../src/domain/public-id.ts';
import type { Scope } from '../runner/scope.ts';
import type { BenchmarkDatabase } from './postgres.ts';
import { startProgram } from './programs.ts';

/** An organization full of demo data, and a key that opens it. */
export type BenchmarkShop = { readonly organizationId: bigint; readonly secret: string };

/** The header that opens it. */
export const keyOf = ({ secret }: BenchmarkShop) => ({ authorization: `Bearer ${secret}` });

export type ShopSizes = {
  readonly organizations: number;
  /** Of each. */
  readonly purchases: number;
  /** Of each; a tenth of the purchases unless told. */
  readonly customers?: number;
  readonly seed: number;
};

/**
 * Fills the database through the seed command: a process of its own, so that this
 * one stays small and a Ctrl-C need not wait for millions of rows.
 */
export async function seedShops(
  scope: Scope,
  { url, pool }: BenchmarkDatabase,
  { organizations, purchases, customers, seed }: ShopSizes,
): Promise<BenchmarkShop[]> {
  console.log(`Seeding ${organizations} × ${purchases.toLocaleString('en')} purchases.`);
  const numbers = {
    organizations,
    purchases,
    customers: customers ?? Math.max(1, Math.floor(purchases / 10)),
    seed,
  };
  const args = Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const output = await startProgram(
    scope,
    'src/commands/seed.ts',
    [...args, '--until', '2026-01-01'],
    { databaseUrl: url },
  ).done();
  await pool.query('vacuum analyze');
  const shops = [...output.matchAll(/^(org_\w+) {2}(crm_live_\w+) /gm)].map(([, id, secret]) => ({
    organizationId: decodeId('organization', id as string) as bigint,
    secret: secret as string,
  }));
  if (shops.length === organizations) return shops;
  throw new Error(`of ${organizations} organizations the seed command told of ${shops.length}`);
}
