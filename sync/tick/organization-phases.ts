import type { Watermark } from '../capture/watermark.ts';

/**
 * How an organization takes part in the ticks:
 *
 * | phase          | meaning                                            | leaves for                      |
 * |----------------|----------------------------------------------------|---------------------------------|
 * | `following`    | each tick includes its changes                     | any other, after a failure      |
 * | `behind`       | the changes since `shown` are few, and can be read | `following`, by a join          |
 * | `far behind`   | they are too many for a tick                       | `following`, after a build      |
 * | `load required`| they cannot be read, or nothing is published       | `following`, after a build      |
 *
 * All but the first are exceptions of a tick: they show `shown` meanwhile.
 */
export type Phase = 'following' | 'behind' | 'far behind' | 'load required';

export type Organization = {
  readonly id: bigint;
  /** The organization and its database (src/postgres/source-identity.ts). */
  readonly source: string;
  phase: Phase;
  /**
   * What readers see if it does not follow; null if nothing is published. If it follows: what it showed
   * when it joined, until a tick shows a later snapshot; otherwise null.
   */
  shown: Watermark | null;
  /** Why it does not follow. */
  reason: string | null;
  /** What is published differs from Postgres: the next load does not continue the change feed. */
  isWrong: boolean;
};

export type Organizations = Map<bigint, Organization>;

/** Reasons of loads. They are labels of a metric, so they contain no values. */
const nothingLoaded = 'nothing was loaded yet';
export const damagedFiles = 'the published files are damaged';
export const otherSource = 'this is another database, or another organization has this id';

export const newOrganization = (
  id: bigint,
  source: string,
  reason = nothingLoaded,
): Organization => ({ id, source, phase: 'load required', shown: null, reason, isWrong: false });

/** Makes an organization leave the ticks. It goes on to show what it shows: `shown`, or when it joined. */
export function leave(
  organization: Organization,
  phase: Exclude<Phase, 'following'>,
  shown: Watermark,
  reason: string | null,
): void {
  if (organization.phase === 'following') organization.shown ??= shown;
  organization.phase = phase;
  organization.reason = reason;
}

/** The organization needs a load. Readers may have its files open, and go on to show `shown`. */
export function requireLoad(organization: Organization, reason: string): void {
  organization.phase = 'load required';
  organization.reason = reason;
}

/** The organization shows `shown` until a tick with a new instant; the published tick if it is null. */
export function follow(organization: Organization, shown: Watermark | null): void {
  organization.phase = 'following';
  organization.shown = shown;
  organization.reason = null;
}

/** A loop, because there may be thousands that follow. */
export function exceptionsOf(organizations: Organizations): Organization[] {
  const exceptions: Organization[] = [];
  for (const organization of organizations.values()) {
    if (organization.phase !== 'following') exceptions.push(organization);
  }
  return exceptions;
}

/** Readers then show what CURRENT says, if there is anything that this worker could not read. */
const unknown: Watermark = { asOf: 0n, snapshot: '', token: '', fingerprint: '', database: '' };

/**
 * What organizations show that do not show a tick of the instant `asOf`, by id. A new instant is later
 * than all that organizations showed when they joined. One that is beyond it is of a clock that has
 * gone back since.
 */
export function shownBeside(
  organizations: Organizations,
  asOf: bigint,
  isSameInstant: boolean,
): Map<bigint, Watermark> {
  const shownById = new Map<bigint, Watermark>();
  for (const { id, phase, shown } of organizations.values()) {
    const isBeyond = shown !== null && shown.asOf > asOf;
    if (phase === 'following') {
      if (isBeyond && isSameInstant) shownById.set(id, shown);
    } else if (isBeyond && !isSameInstant) shownById.set(id, { ...shown, asOf });
    else shownById.set(id, shown ?? unknown);
  }
  return shownById;
}

/** The organizations that follow, except those of `shownById`, show a tick from now on. */
export function showTick(
  organizations: Organizations,
  shownById: ReadonlyMap<bigint, Watermark>,
): void {
  for (const organization of organizations.values()) {
    if (organization.phase === 'following' && !shownById.has(organization.id)) {
      organization.shown = null;
    }
  }
}
