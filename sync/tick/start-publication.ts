import { type Database, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { organizationWatermark } from '../../src/purchase-store/ticks/published.ts';
import { newestTick } from '../../src/purchase-store/ticks/published-tick.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';
import { confirmSnapshot } from '../capture/history-token.ts';
import { whyChangesMissing } from '../capture/missing-changes.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import type { Watermark } from '../capture/watermark.ts';
import {
  continueFrom,
  damagedFiles,
  follow,
  newOrganization,
  type Organization,
  type Organizations,
  otherSource,
  requireLoad,
} from '../organization.ts';
import { readSources } from './organization-list.ts';
import { createPublication, type Publication } from './publication.ts';
import type { Store } from './store.ts';

/**
 * Continues from the published ticks: organizations whose watermark is the common one follow from
 * there. Others join, if the change log has their changes, or are loaded.
 */
export async function startPublication(
  options: { readonly database: Database; readonly store: Store; readonly shard: Shard },
  organizations: Organizations,
  onDamage: (organizationId: bigint, error: unknown) => void,
): Promise<Publication> {
  const { database, store, shard } = options;
  const ticks = await store.readTicks();
  let tick = ticks.reduce((max, each) => Math.max(max, each.tick), 0);
  for (const [id, source] of await readSources(database, shard)) {
    const organization = newOrganization(id, source);
    organizations.set(id, organization);
    const published = newestTick(ticks, id);
    const failure = await store.recover(id, published?.tick ?? 0).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    const stored = store.storedOf(id);
    if (stored !== null && stored.source !== source) organization.reason = otherSource;
    else if (stored !== null) {
      const { watermark, tick: at } = stored;
      // After a crash of the machine, CURRENT may be later than the tick.
      tick = Math.max(tick, at);
      const found = organizationWatermark(id, { ...watermark, tick: at, source }, published);
      continueFrom(organization, { ...watermark, ...found });
    }
    if (failure !== null) {
      requireLoad(organization, damagedFiles);
      onDamage(id, failure.error);
    }
  }
  const watermark = await commonWatermark(database, organizations);
  let { asOf } = watermark;
  for (const organization of organizations.values()) {
    const own = organization.watermark;
    if (own !== null && own.asOf > asOf) asOf = own.asOf;
    const isCurrent = own?.snapshot === watermark.snapshot;
    // `asOf` may come from another organization. Until the next poll, this one shows its own instant.
    if (organization.phase === 'behind' && isCurrent) follow(organization, own);
  }
  const mine = ticks.find((each) => shardName(each.shard) === shardName(shard));
  if (mine !== undefined && mine.asOf > asOf) asOf = mine.asOf;
  return createPublication(store, shard, organizations, { watermark, tick, asOf });
}

/**
 * The watermark that most organizations show, if the change log has the changes since; otherwise a
 * new one. Organizations whose changes it lacks must be loaded.
 */
async function commonWatermark(
  database: Database,
  organizations: Organizations,
): Promise<Watermark> {
  const groups = new Map<string, Organization[]>();
  for (const organization of organizations.values()) {
    const { phase, watermark } = organization;
    if (phase !== 'behind' || watermark === null) continue;
    const group = groups.get(watermark.snapshot) ?? [];
    group.push(organization);
    groups.set(watermark.snapshot, group);
  }
  const largest = [...groups.values()].sort((one, other) => other.length - one.length);
  for (const group of largest) {
    const watermark = group[0]?.watermark as Watermark;
    const reason = await whyChangesMissing(database, watermark);
    if (reason === null) return watermark;
    for (const organization of group) requireLoad(organization, reason);
  }
  const now = await withSnapshot(database, takeSnapshot);
  return confirmSnapshot(database, now);
}
