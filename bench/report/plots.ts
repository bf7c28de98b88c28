import type { Summary } from '../measure/statistics.ts';

/**
 * What a suite wants shown. It says what its figures mean; how they are drawn is
 * the page's business (page.ts), which knows of no suite.
 */
export type Plot = BarPlot | CurvePlot;

export type Scale = 'linear' | 'log';

/** One value a line, with the quartiles of what was measured. */
export type BarPlot = {
  readonly kind: 'bars';
  readonly title: string;
  readonly note?: string;
  /** Written behind each value: ` ms`, `×`, ` %`. */
  readonly unit: string;
  readonly scale: Scale;
  /**
   * Where bars begin: 0, or 1 for ratios. Null where no value is special, as on a
   * logarithmic scale of times: there is a point then, for a length would tell nothing.
   */
  readonly baseline: number | null;
  readonly target?: PlotTarget;
  readonly bars: readonly { readonly label: string; readonly value: Summary }[];
};

/** A value to reach, or not to exceed. */
export type PlotTarget = { readonly label: string; readonly value: number };

export type CurvePlot = {
  readonly kind: 'curves';
  readonly title: string;
  readonly note?: string;
  readonly x: PlotAxis;
  readonly y: PlotAxis;
  /** A dotted line that rises in proportion; for two logarithmic axes. */
  readonly showsProportion?: boolean;
  readonly curves: readonly Curve[];
};

export type PlotAxis = { readonly label: string; readonly scale: Scale };

export type Curve = {
  readonly label: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
};
