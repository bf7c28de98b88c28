import { describeFailure } from '../failure.ts';
import type { Verification } from './verify.ts';

/** The repairs of a difference. Each repair publishes the result. */
export type Repairs = {
  /** Reads these purchases again from Postgres. */
  reread(ids: readonly bigint[]): Promise<void>;
  /** `isWrong`: what is published differs from Postgres, so the change feed begins anew. */
  rebuild(isWrong?: boolean): Promise<void>;
};

export type Repair = {
  /** In the order of execution. */
  readonly repairs: readonly (keyof Repairs)[];
  /** The last verification: after the repair, or before a repair that failed. */
  readonly outcome: Verification;
  /** Why a repair, or the verification after it, failed. */
  readonly failure: string | null;
};

/**
 * Repairs the published generation with the smallest repair, and verifies the result. Null if
 * nothing differs, or the generation cannot be compared. A failed repair does not reject, so
 * that the caller can report the differences.
 */
export async function repair(
  found: Verification,
  repairs: Repairs,
  verifyAgain: () => Promise<Verification>,
): Promise<Repair | null> {
  if (!needsRepair(found)) return null;
  const done: (keyof Repairs)[] = [];
  let outcome = found;
  try {
    const ids = differingIds(found);
    if (ids !== null) {
      await repairs.reread(ids);
      done.push('reread');
      outcome = await verifyAgain();
    }
    if (needsRepair(outcome)) {
      await repairs.rebuild(true);
      done.push('rebuild');
      outcome = await verifyAgain();
    }
  } catch (error) {
    return { repairs: done, outcome, failure: describeFailure(error).message };
  }
  return { repairs: done, outcome, failure: null };
}

/** Null if reading purchases again does not repair the generation. */
function differingIds({ differences }: Verification): readonly bigint[] | null {
  if (differences.length === 0 || differences.some(({ ids }) => ids === null)) return null;
  return differences.flatMap(({ ids }) => ids ?? []);
}

const needsRepair = ({ state }: Verification): boolean =>
  state === 'differs' || state === 'unreadable';
