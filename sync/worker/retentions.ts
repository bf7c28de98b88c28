/** A load that has failed for longer begins again. */
const maxFailingMs = 3_600_000;

type Retention = {
  /** Null while the build does not know it yet. */
  snapshot: string | null;
  isRunning: boolean;
  /** When the build first failed, in monotonic milliseconds. */
  failingSince: number | null;
};

type Group = readonly { readonly id: bigint }[];

/**
 * The snapshots whose later changes builds need. A load that failed continues where it was, so its
 * snapshot is retained until the load succeeds.
 */
export type Retentions = {
  /** Returns the function by which the build sets its snapshot. */
  begin(group: Group): (snapshot: string) => void;
  fail(group: Group): void;
  succeed(group: Group): void;
  /** Null while a build does not know its snapshot yet. */
  snapshots(isPresent: (organizationId: bigint) => boolean): readonly string[] | null;
};

export function createRetentions(): Retentions {
  const all = new Map<bigint, Retention>();

  const removeUnused = (isPresent: (organizationId: bigint) => boolean): void => {
    const oldest = performance.now() - maxFailingMs;
    for (const [id, { isRunning, failingSince }] of all) {
      if (isRunning) continue;
      if (!isPresent(id) || (failingSince ?? 0) < oldest) all.delete(id);
    }
  };

  return {
    begin(group) {
      for (const { id } of group) {
        const { snapshot = null, failingSince = null } = all.get(id) ?? {};
        all.set(id, { snapshot, failingSince, isRunning: true });
      }
      return (snapshot) => {
        for (const { id } of group) {
          const before = all.get(id);
          const failingSince = before?.snapshot === snapshot ? before.failingSince : null;
          all.set(id, { snapshot, failingSince, isRunning: true });
        }
      };
    },
    fail(group) {
      for (const { id } of group) {
        const { snapshot = null, failingSince = null } = all.get(id) ?? {};
        all.delete(id);
        if (snapshot === null) continue;
        all.set(id, {
          snapshot,
          isRunning: false,
          failingSince: failingSince ?? performance.now(),
        });
      }
    },
    succeed(group) {
      for (const { id } of group) all.delete(id);
    },
    snapshots(isPresent) {
      removeUnused(isPresent);
      const snapshots = new Set([...all.values()].map(({ snapshot }) => snapshot));
      return snapshots.has(null) ? null : ([...snapshots] as string[]);
    },
  };
}
