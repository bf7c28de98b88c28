import type { Connection, Database } from '../../src/postgres/connection/pool.ts';
import { noRecords, type Records, streamChanges } from '../capture/changed-purchases.ts';
import { type Watermark, watermarkFor } from '../capture/watermark.ts';
import { isFileDamage } from '../describe-failure.ts';
import {
  damagedFiles,
  follow,
  leave,
  type Organization,
  type Organizations,
} from '../organization.ts';
import { maxTickBytes, maxTickBytesOfOne, TooManyBytesError } from './byte-limits.ts';
import type { Publication } from './publication.ts';
import type { Store } from './store.ts';

// The steps that ticks and joins share: select organizations, read their changes, publish them.

export const defaultMaxTickChanges = 50_000;

export type TickContext = {
  readonly database: Database;
  readonly store: Store;
  readonly organizations: Organizations;
  readonly publication: Publication;
  /** Changes of one tick, of all organizations together. An organization with more is built. */
  readonly maxTickChanges: number;
  /** An organization has left the ticks because of this error. */
  readonly onFailure: (organization: Organization, error: unknown) => void;
};

export type TickResult = {
  /** The organizations with changes, and how many changes were published. */
  readonly changed: readonly bigint[];
  readonly changes: number;
  readonly bytes: number;
};

export const noChanges: TickResult = { changed: [], changes: 0, bytes: 0 };

/**
 * The organizations whose changes are read, the fewest changes first. Others leave the ticks, and
 * join after it. An organization with more changes than a tick may have is built.
 */
export function selectOrganizations(
  { organizations, publication, maxTickChanges }: TickContext,
  counts: ReadonlyMap<bigint, number>,
  isWanted = ({ phase }: Organization) => phase === 'following',
): bigint[] {
  const included: bigint[] = [];
  let total = 0;
  for (const [id, count] of [...counts].sort(([, one], [, other]) => one - other)) {
    const organization = organizations.get(id);
    if (organization === undefined || !isWanted(organization)) continue;
    total += count;
    if (total <= maxTickChanges) included.push(id);
    else {
      const phase = count <= maxTickChanges ? 'behind' : 'far behind';
      leave(organization, phase, publication.watermarkOf(id), `${count} changes at once`);
    }
  }
  return included;
}

/**
 * The changes of each organization. Rejects with TooManyBytesError as soon as there are too many: reading
 * the rest would delay the ticks of all organizations.
 */
export async function readChanges(
  connection: Connection,
  included: readonly bigint[],
  since: string,
): Promise<Map<bigint, Records>> {
  const changes = new Map<bigint, Records>();
  if (included.length === 0) return changes;
  let bytes = 0;
  for await (const [id, { lines, records }] of streamChanges(connection, included, since)) {
    const before = changes.get(id) ?? noRecords;
    const all = before.records === 0 ? lines : Buffer.concat([before.lines, lines]);
    changes.set(id, { lines: all, records: before.records + records });
    if (all.length > maxTickBytesOfOne) throw new TooManyBytesError(id);
    bytes += lines.length;
    if (bytes > maxTickBytes) throw new TooManyBytesError(largestOf(changes));
  }
  return changes;
}

function largestOf(changes: ReadonlyMap<bigint, Records>): bigint {
  const [[largest]] = [...changes].sort(
    ([, one], [, other]) => other.lines.length - one.lines.length,
  ) as [[bigint, Records]];
  return largest;
}

/**
 * Appends changes and publishes a tick. Organizations whose append fails leave the ticks. Organizations
 * that join follow from now on, and have `joinedWatermark` until a tick reaches its instant.
 */
export async function publishChanges(
  context: TickContext,
  changes: ReadonlyMap<bigint, Records>,
  watermark: Watermark,
  {
    joining = [],
    joinedWatermark = watermark,
  }: { joining?: readonly Organization[]; joinedWatermark?: Watermark } = {},
): Promise<TickResult> {
  const { publication, store } = context;
  const failures = await store.append(publication.next(), changes);
  for (const [id, error] of failures) leaveAfter(context, id, error);
  const published = [...changes].filter(([id]) => !failures.has(id));
  const joined = joining.filter(({ id }) => !failures.has(id));
  const before = joined.map((organization) => ({ ...organization }));
  for (const organization of joined) {
    follow(organization, watermarkFor(joinedWatermark, organization.id));
  }
  try {
    await publication.publish(watermark);
  } catch (error) {
    joined.forEach((organization, index) => void Object.assign(organization, before[index]));
    await withdraw(
      context,
      published.map(([id]) => id),
    );
    throw error;
  }
  return {
    changed: published.map(([id]) => id),
    changes: published.reduce((sum, [, { records }]) => sum + records, 0),
    bytes: published.reduce((sum, [, { lines }]) => sum + lines.length, 0),
  };
}

/** Cuts off batches whose tick was not published: they must not become visible with a later one. */
async function withdraw(
  { organizations, publication, store }: TickContext,
  appended: readonly bigint[],
): Promise<void> {
  for (const id of appended) {
    const organization = organizations.get(id);
    if (organization === undefined) continue;
    const { tick } = publication;
    const tickWatermark = publication.watermarkOf(id);
    await store.recover(id, tick).then(
      () => leave(organization, 'behind', tickWatermark, null),
      () => leave(organization, 'load required', tickWatermark, 'a batch could not be withdrawn'),
    );
  }
}

/** The organization leaves the ticks because of an error, or because it has too many bytes of changes. */
export function leaveAfter(
  { organizations, publication, onFailure }: TickContext,
  id: bigint,
  error: unknown,
): void {
  const organization = organizations.get(id);
  if (organization === undefined) return;
  if (error instanceof TooManyBytesError) {
    leave(organization, 'far behind', publication.watermarkOf(id), 'changes with much text');
    return;
  }
  // Damaged files cannot be continued.
  const phase = isFileDamage(error) ? 'load required' : 'behind';
  const reason = isFileDamage(error) ? damagedFiles : null;
  leave(organization, phase, publication.watermarkOf(id), reason);
  onFailure(organization, error);
}
