import { decodeId } from '../../src/domain/public-id.ts';
import type { Scope } from '../runner/scope.ts';
import type { BenchmarkDatabase } from './postgres.ts';
import { startProgram } from './programs.ts';

/** An organization of demo data, and an API key of it. */
export type BenchmarkShop = { readonly organizationId: bigint; readonly secret: string };

export const authorization = ({ secret }: BenchmarkShop) => ({ authorization: `Bearer ${secret}` });

export type ShopSize = {
  readonly purchases: number;
  /** A tenth of the purchases by default. */
  readonly customers?: number;
  readonly seed: number;
};
/** Organizations of the same size. */
export type ShopSizes = ShopSize & { readonly organizations: number };

/** Runs the seed command: a process of its own, so that this one stays small and Ctrl-C works. */
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
  const sizes = Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const args = [...sizes, '--until', '2026-01-01'];
  const environment = { databaseUrl: url };
  const output = await startProgram(scope, 'src/commands/seed.ts', args, environment).done();
  await pool.query('vacuum analyze');
  const shops = [...output.matchAll(/^(org_\w+) {2}(crm_live_\w+) /gm)].map(([, id, secret]) => ({
    organizationId: decodeId('organization', id as string) as bigint,
    secret: secret as string,
  }));
  if (shops.length === organizations) return shops;
  throw new Error(`the seed command printed ${shops.length} of ${organizations} organizations`);
}

export async function seedShop(
  scope: Scope,
  database: BenchmarkDatabase,
  size: ShopSize,
): Promise<BenchmarkShop> {
  const [shop] = await seedShops(scope, database, { ...size, organizations: 1 });
  return shop as BenchmarkShop;
}
