import { type FailedAttempts, isDue } from './attempts.ts';
import type { Watermark } from './capture/watermark.ts';
import type { OrganizationReport, OrganizationState } from './organization-report.ts';

/**
 * How an organization takes part in the ticks:
 *
 * | phase           | meaning                                      | leaves for                               |
 * |-----------------|----------------------------------------------|------------------------------------------|
 * | `following`     | each tick includes its changes               | any other: a failure, or many changes    |
 * | `behind`        | the changes since its `watermark` are few    | `following`, by a join; the next two, if |
 * |                 |                                              | they are many or cannot be read          |
 * | `far behind`    | they are too many for a tick                 | `following`, by a catch-up; the next, if |
 * |                 |                                              | they cannot be read, or merged in memory |
 * | `load required` | they cannot be read, or nothing is published | `following`, by a load                   |
 *
 * In any phase but `following`, it is an exception of the ticks, and its `watermark` stays. `dueBuild` decides
 * which build is due.
 */
type Phase = 'following' | 'behind' | 'far behind' | 'load required';

/**
 * What a worker does for one organization, at most one at a time. A load that is requested also runs while
 * the organization follows, and replaces what is published. A compaction leaves the phase as it is.
 */
export type BuildKind = 'load' | 'catch up' | 'compact';

/** The failures of a build, by organization. Organizations without a failure are published. */
export type BuildFailures = ReadonlyMap<bigint, unknown>;

/** A build. Organizations that are loaded together share one. */
export type Build = {
  readonly kind: BuildKind;
  done: Promise<BuildFailures>;
  /** Null while the build waits for a slot. */
  state: OrganizationState | null;
  progress: OrganizationReport['progress'];
};

/** What the worker does, has to do, and failed to do for an organization. */
type Work = {
  /** Runs, or waits for a slot. */
  build: Build | null;
  /** Its delta is being saved, beside any build. */
  isSaving: boolean;
  /** The reason of a requested load that has not succeeded yet. */
  requestedLoad: string | null;
  /** It made a shared load fail, so its next load has no other organization. */
  loadsAlone: boolean;
  /** What the change log must retain for a load or catch-up that has not succeeded. */
  retention: Retention | null;
  /** Failed attempts, and the pauses after them (attempts.ts). */
  readonly failed: FailedAttempts;
  /** Reports of damage are ignored until then, in monotonic milliseconds. */
  ignoresDamageUntil: number;
  /** When its last verification began, in monotonic milliseconds; null if this worker began none. */
  verificationAt: number | null;
};

type Retention = {
  /** The snapshot whose later changes the build needs; null while the build does not know it yet. */
  readonly snapshot: string | null;
  /** When the build first failed, in monotonic milliseconds; null if it has not failed. */
  readonly failingSince: number | null;
};

/** All that a worker knows of an organization, except what its store has published. */
export type Organization = {
  readonly id: bigint;
  /** The organization and its database (src/postgres/connection/source-identity.ts). */
  readonly source: string;
  phase: Phase;
  /**
   * The watermark of an exception; null if nothing is published. While the organization follows: the
   * watermark with which it joined, until a tick reaches its instant; then null.
   */
  watermark: Watermark | null;
  /** Why the organization does not follow. */
  reason: string | null;
  /** What is published differs from Postgres: the next load does not continue the change feed. */
  differsFromPostgres: boolean;
  readonly work: Work;
};

export type Organizations = Map<bigint, Organization>;

/** Reasons of loads. They are labels of a metric, so they contain no values. */
const nothingLoaded = 'nothing was loaded yet';
export const damagedFiles = 'the published files are damaged';
export const otherSource = 'this is another database, or another organization has this id';

/** An organization of which nothing is known. `known` has had its id: its builds may still run. */
export const newOrganization = (
  id: bigint,
  source: string,
  known?: Organization,
): Organization => ({
  id,
  source,
  phase: 'load required',
  watermark: null,
  reason: known === undefined ? nothingLoaded : otherSource,
  differsFromPostgres: false,
  work: known?.work ?? {
    build: null,
    isSaving: false,
    requestedLoad: null,
    loadsAlone: false,
    retention: null,
    failed: { join: null, build: null, compaction: null },
    ignoresDamageUntil: 0,
    verificationAt: null,
  },
});

/** Makes an organization continue from the watermark of its published files. */
export function continueFrom(organization: Organization, watermark: Watermark): void {
  organization.phase = 'behind';
  organization.watermark = watermark;
  organization.reason = null;
}

/** Makes an organization leave the ticks. It keeps the watermark of the tick, or of its join. */
export function leave(
  organization: Organization,
  phase: Exclude<Phase, 'following'>,
  tickWatermark: Watermark,
  reason: string | null,
): void {
  if (organization.phase === 'following') organization.watermark ??= tickWatermark;
  organization.phase = phase;
  organization.reason = reason;
}

/** The organization needs a load. Readers may have its files open, so its watermark stays. */
export function requireLoad(organization: Organization, reason: string): void {
  organization.phase = 'load required';
  organization.reason = reason;
}

/** Makes an organization follow: with `watermark` until a tick reaches its instant, or with the tick's if null. */
export function follow(organization: Organization, watermark: Watermark | null): void {
  organization.phase = 'following';
  organization.watermark = watermark;
  organization.reason = null;
}

/** The organizations that do not follow. A loop, because there may be thousands that do. */
export function exceptionsOf(organizations: Organizations): Organization[] {
  const exceptions: Organization[] = [];
  for (const organization of organizations.values()) {
    if (organization.phase !== 'following') exceptions.push(organization);
  }
  return exceptions;
}

/**
 * The build that is due by the phase, or because it was requested; null if there is none, if one runs, or
 * during the pause after a failure.
 */
export function dueBuild(organization: Organization): 'load' | 'catch up' | null {
  const { phase, work } = organization;
  if (work.build !== null || !isDue(work.failed, 'build')) return null;
  if (phase === 'load required' || work.requestedLoad !== null) return 'load';
  return phase === 'far behind' ? 'catch up' : null;
}

/** False before a required load: the published files may belong to another organization that had this id. */
export const mayCompact = (organization: Organization): boolean =>
  organization.phase !== 'load required' &&
  organization.work.build === null &&
  !organization.work.isSaving &&
  isDue(organization.work.failed, 'compaction');

/**
 * The states that `status` and metrics show, the first that applies:
 *
 * | phase, or build                        | state             | leaves by                     |
 * |----------------------------------------|-------------------|-------------------------------|
 * | any; the last build or join failed     | `failed`          | an attempt that succeeds      |
 * | a load runs, and nothing is published  | `loading`         | its end                       |
 * | a load runs, and files are published   | `rebuilding`      | its end                       |
 * | a catch-up runs                        | `catching up`     | its end                       |
 * | a compaction runs                      | `compacting`      | its end                       |
 * | `following`                            | `live`            |                               |
 * | `behind`, `far behind`                 | `catching up`     | a join; a catch-up            |
 * | `load required`                        | `waiting to load` | a load that has a slot        |
 *
 * Instead of these, `status` shows `not captured`, `damaged` or `stopped` (sync/status/status.ts).
 */
const statesOfPhases: Readonly<Record<Phase, OrganizationState>> = {
  following: 'live',
  behind: 'catching up',
  'far behind': 'catching up',
  'load required': 'waiting to load',
};

/**
 * The report for status and metrics. A failed compaction delays no publication, so its failure is only
 * logged.
 */
export function reportOf({ phase, work }: Organization): OrganizationReport {
  const { build } = work;
  const failure = (work.failed.build ?? work.failed.join)?.failure ?? null;
  const state = failure === null ? (build?.state ?? statesOfPhases[phase]) : 'failed';
  return { state, progress: build?.progress ?? null, failure };
}
