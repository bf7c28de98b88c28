import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows, quotePath } from '../../duckdb/connection.ts';
import { layoutVersion } from '../../purchase-store/layout.ts';
import { createGeneration, type Generation } from './labels.ts';
import { listPurchases } from './list.ts';
import { purchaseStats } from './stats.ts';

/**
 * Attaches an organization's file under a name of its own, and warms it where that is
 * asked for. Rejects, with nothing attached, where it is none of that organization, or not
 * one to be served.
 */
export async function attachGeneration(
  connection: DuckDBConnection,
  catalog: string,
  path: string,
  organizationId: bigint,
  { warm }: { readonly warm: boolean },
): Promise<Generation> {
  await connection.run(`attach ${quotePath(path)} as ${catalog} (read_only)`);
  try {
    const [watermark] = await queryRows(
      connection,
      sql`select organization_id, layout_version from ${raw(catalog)}.watermark`,
    );
    if (watermark?.[0] !== organizationId || watermark[1] !== layoutVersion) {
      throw new Error(`${path} is not the organization's file, or not complete`);
    }
    const generation = await createGeneration(connection, catalog);
    // The first questions to a fresh file are slow; nobody should have to ask them.
    if (warm) {
      await purchaseStats(connection, generation, { filters: {}, groupLimit: 1 });
      await listPurchases(connection, generation, { filters: {}, limit: 1 });
    }
    return generation;
  } catch (error) {
    await connection.run(`detach ${catalog}`);
    throw error;
  }
}
