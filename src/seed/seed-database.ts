import pg from 'pg';
import { prepareSession } from '../postgres/connection/session.ts';
import { createProgress } from '../process/progress.ts';
import { drawInstants } from './calendar.ts';
import { drawEmailCampaigns, drawTemplateCampaigns } from './campaigns.ts';
import { copyRows, type Row } from './copy-rows.ts';
import { drawSegments, drawTags, type Group } from './customer-groups.ts';
import { customerRows, drawCustomers } from './customers.ts';
import { attributeRows, flowRows } from './definitions.ts';
import { purchaseRows, totalPaid } from './purchases.ts';
import { createShop, type Shop } from './shop.ts';

export type SeedOptions = {
  organizations: number;
  /** These two of each organization. */
  customers: number;
  purchases: number;
  /** The same options on an empty database give the same rows, ids included. */
  seed: number;
  /** The end of the data: only scheduled campaigns have later instants. */
  until: Date;
  /** Purchases of all organizations. */
  onProgress?: (done: number, total: number) => void;
  /** Called for each organization after its commit. */
  onSeeded?: (organization: SeededOrganization) => Promise<void>;
  /** Commits all organizations together. */
  isOneTransaction?: boolean;
  /** Ends the seeding at once, and rolls back what is not committed. */
  signal?: AbortSignal;
};
export type SeededOrganization = { organizationId: bigint; name: string };

/** Bounds what Postgres queues for the triggers and foreign keys of one statement. */
const purchasesPerCopy = 50_000;

/** Adds demo data to a migrated database, by default in one transaction for each organization. */
export async function seedDatabase(
  databaseUrl: string,
  options: SeedOptions,
): Promise<SeededOrganization[]> {
  const { organizations, customers, purchases, seed, until, onProgress } = options;
  const { onSeeded, isOneTransaction = false, signal } = options;
  if (purchases > 0 && customers === 0) throw new RangeError('purchases need customers');
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'crm-data-service seed',
  });
  // If the connection is lost, the query fails too.
  client.on('error', () => {});
  await client.connect();
  const end = () => void client.end().catch(() => {});
  signal?.addEventListener('abort', end, { once: true });
  try {
    await prepareSession(client);
    signal?.throwIfAborted();
    const seeded: SeededOrganization[] = [];
    // If a statement fails before the commit, the end of the connection rolls back.
    if (isOneTransaction) await client.query('begin');
    for (let index = 0; index < organizations; index++) {
      const shop = createShop(seed, index, until);
      if (!isOneTransaction) await client.query('begin');
      const organizationId = await seedOrganization(client, shop, options, (done) =>
        onProgress?.(index * purchases + done, organizations * purchases),
      );
      const organization = { organizationId: BigInt(organizationId), name: shop.name };
      seeded.push(organization);
      if (isOneTransaction) continue;
      await client.query('commit');
      await onSeeded?.(organization);
    }
    if (isOneTransaction) await client.query('commit');
    return seeded;
  } catch (error) {
    // The end of the connection causes other errors.
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener('abort', end);
    await client.end();
  }
}

/** Returns the organization's id. */
async function seedOrganization(
  client: pg.Client,
  shop: Shop,
  size: SeedOptions,
  onProgress: (purchasesDone: number) => void,
): Promise<string> {
  const instants = drawInstants(shop.calendar, size.purchases, shop.random('instants'));
  const customers = drawCustomers(shop, size.customers);
  const emails = drawEmailCampaigns(shop, customers);
  const templates = drawTemplateCampaigns(shop, customers);
  const draw = (firstCustomerId: number) =>
    purchaseRows(shop, customers, instants, [...emails, ...templates], firstCustomerId);
  const totals = totalPaid(customers, draw(0));

  const { rows } = await client.query<{ id: string }>(
    'insert into organizations (name, created_at) values ($1, $2) returning id',
    [shop.name, new Date(shop.calendar.start)],
  );
  const { id } = rows[0] as { id: string };
  const copy = (table: string, lines: readonly Row[]) =>
    copyRows(client, table, id, lines.values(), lines.length);
  const lines = customerRows(shop, totals);
  const firstCustomerId = await copyRows(client, 'customers', id, lines, size.customers);
  const copyGroups = async (kind: 'tag' | 'segment', links: string, groups: readonly Group[]) => {
    const groupRows = groups.map(({ row }) => row);
    const firstId = await copy(`${kind}s`, groupRows);
    const insert = `insert into ${links} (organization_id, ${kind}_id, customer_id)
      select $1, $2, $3 + member from unnest($4::bigint[]) as member`;
    for (const [index, { members }] of groups.entries()) {
      await client.query(insert, [id, firstId + index, firstCustomerId, members]);
    }
  };
  await copyGroups('tag', 'customer_tags', drawTags(shop, customers));
  await copyGroups('segment', 'segment_customers', drawSegments(shop, totals));
  await copy('attributes', attributeRows(shop));
  await copy('flows', flowRows(shop, size.customers));
  await copy('email_campaigns', emails);
  await copy('template_campaigns', templates);
  const purchases = draw(firstCustomerId);
  for (let done = 0; done < size.purchases; ) {
    const count = Math.min(purchasesPerCopy, size.purchases - done);
    await copyRows(client, 'purchases', id, purchases, count);
    done += count;
    onProgress(done);
  }
  return id;
}

/** Seeds the database, and shows the progress on standard error. */
export function seedWithProgress(
  databaseUrl: string,
  options: Omit<SeedOptions, 'onProgress'>,
): Promise<SeededOrganization[]> {
  const progress = createProgress('purchases', options.organizations * options.purchases);
  return seedDatabase(databaseUrl, { ...options, onProgress: progress.update }).finally(
    progress.end,
  );
}
