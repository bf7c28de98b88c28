import type { Change, Circumstances } from './change.ts';
import { columnChanges } from './column-changes.ts';
import { partitionChanges } from './partition-changes.ts';
import { rightChanges } from './right-changes.ts';
import type { Store } from './store.ts';
import { tableChanges } from './table-changes.ts';
import { viewChanges } from './view-changes.ts';

const weighted = [
  ...columnChanges,
  ...tableChanges,
  ...viewChanges,
  ...partitionChanges.map((each) => [2, each] as const),
  ...rightChanges.map((each) => [2, each] as const),
];

const choices = weighted.flatMap(([weight, each]) => Array.from({ length: weight }, () => each));

/** A change of a copy of the model. */
export function randomChange(
  store: Store,
  circumstances: Circumstances,
): { store: Store; change: Change } {
  for (;;) {
    const changed = structuredClone(store);
    const found = circumstances.random.pick(choices)(changed, circumstances);
    if (found !== null) return { store: changed, change: found };
  }
}
