import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { problemOf } from '../api/api.ts';
import type { ApiProblem } from '../api/problem.ts';
import { hashOf } from '../view/view-state.ts';
import {
  type DashboardData,
  loadDashboard,
  loadTotals,
  type PartName,
  type Request,
  type Totals,
  type View,
} from './load.ts';

/** A part of the dashboard: what it shows, and how its last request ended. */
export type Part<Value> = {
  /** The view of the value: an earlier one until that of the present view arrives. */
  readonly view: View;
  /** Null if the request failed, or if a filter does not apply to the part. */
  readonly value: Value | null;
  /** The view of the last request that ended. Null while a failed one is repeated. */
  readonly ended: View | null;
  /** Why the last request failed. Null if it did not. */
  readonly problem: ApiProblem | null;
  /** Repeats the last request. */
  retry(): void;
};

export type Parts = { readonly [Name in PartName]?: Part<DashboardData[Name]> };

/** The parts that the page shows. */
export const partNames: readonly PartName[] = [
  ...(['totals', 'library', 'series', 'sales', 'ranking'] as const),
  ...(['customer_types', 'customers', 'cohorts', 'purchases'] as const),
];

/** Whether the part has arrived or failed. */
export const isEnded = (part: Part<unknown> | undefined, view: View): boolean =>
  part?.ended === view;

/** Loads the parts of a view. `onTotals` sees the totals first, and returns whether to go on with the view. */
export function useParts(view: View, onTotals: (totals: Totals) => boolean) {
  const [parts, setParts] = useState<Parts>({});
  const current = useRef({ view, signal: new AbortController().signal });
  const load = async <Name extends PartName>(name: Name, request: Request<Name>) => {
    type Shown = Part<DashboardData[Name]>;
    const { view, signal } = current.current;
    const set = (change: Partial<Shown> | ((before: Shown | undefined) => Partial<Shown>)) => {
      if (signal.aborted) return;
      setParts((parts) => {
        const before = parts[name] as Shown | undefined;
        const changes = typeof change === 'function' ? change(before) : change;
        return { ...parts, [name]: { ...before, ...changes } };
      });
    };
    const retry = () => {
      set({ ended: null });
      void load(name, request);
    };
    try {
      const value = await request();
      set({ view, value, ended: view, problem: null, retry });
      return value;
    } catch (error) {
      if (signal.aborted) return null;
      const failure = { ended: view, problem: problemOf(error), retry };
      // Earlier data of the same state are better than none.
      set((before) => {
        const isSame = before && hashOf(before.view.state) === hashOf(view.state);
        return isSame ? failure : { view, value: null, ...failure };
      });
      return null;
    }
  };
  useLayoutEffect(() => {
    const loading = new AbortController();
    const { signal } = loading;
    current.current = { view, signal };
    const requestTotals = async () => {
      const totals = await loadTotals(view, signal);
      if (!signal.aborted && !onTotals(totals)) loading.abort();
      return totals;
    };
    void loadDashboard(view, signal, load, requestTotals);
    return () => loading.abort();
  }, [view]);
  return { parts, load };
}
