import { describeFailure } from '../failure.ts';
import type { PurchaseRange } from './purchase-range.ts';
import type { Verification } from './verify.ts';

/** What the worker can do about a difference; each publishes what it comes to. */
export type Repairs = {
  /** Reads these purchases again, or, where that would not help, everything. */
  reread(ranges: readonly PurchaseRange[]): Promise<void>;
  rebuild(): Promise<void>;
};

export type Repair = {
  /** What was done, in this order. */
  readonly repairs: readonly (keyof Repairs)[];
  /** The last verification: after the repair, or before the one that failed. */
  readonly outcome: Verification;
  /** Why a repair, or the verification after it, failed. */
  readonly failure: string | null;
};

/**
 * Does the least that makes what is published equal to Postgres, and verifies that
 * it is. Null where there is nothing to repair, or nothing can be said. A failed
 * repair does not reject: what was found is still to be reported.
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
    if (found.differences.length > 0 && found.dictionaries.length === 0) {
      await repairs.reread(found.differences);
      done.push('reread');
      outcome = await verifyAgain();
    }
    if (needsRepair(outcome)) {
      await repairs.rebuild();
      done.push('rebuild');
      outcome = await verifyAgain();
    }
  } catch (error) {
    return { repairs: done, outcome, failure: describeFailure(error).message };
  }
  return { repairs: done, outcome, failure: null };
}

const needsRepair = ({ state }: Verification): boolean =>
  state === 'differs' || state === 'unreadable';
