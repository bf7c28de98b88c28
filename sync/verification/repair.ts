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
  /** What verifying came to after that. */
  readonly outcome: Verification;
};

/**
 * Does the least that makes what is published equal to Postgres, and verifies that
 * it is. Null where there is nothing to repair, or nothing can be said.
 */
export async function repair(
  found: Verification,
  repairs: Repairs,
  verifyAgain: () => Promise<Verification>,
): Promise<Repair | null> {
  if (!needsRepair(found)) return null;
  const done: (keyof Repairs)[] = [];
  let outcome = found;
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
  return { repairs: done, outcome };
}

const needsRepair = ({ state }: Verification): boolean =>
  state === 'differs' || state === 'unreadable';
