import type { Summary } from '../measure/statistics.ts';

/** A chart of a suite: its meaning. `charts.ts` draws it. */
export type Plot = BarPlot | CurvePlot;

export type Scale = 'linear' | 'log';

/** A line for each value, with the quartiles of the measurements. */
export type BarPlot = {
  readonly kind: 'bars';
  readonly title: string;
  readonly note?: string;
  /** Follows each value: ` ms`, `×`, ` %`. */
  readonly unit: string;
  readonly scale: Scale;
  /**
   * The start of the bars: 0, or 1 for ratios. Null draws points instead, because on a logarithmic
   * scale of times the length of a bar has no meaning.
   */
  readonly baseline: number | null;
  /** A minimum or maximum. */
  readonly target?: { readonly label: string; readonly value: number };
  readonly bars: readonly { readonly label: string; readonly value: Summary }[];
};

export type CurvePlot = {
  readonly kind: 'curves';
  readonly title: string;
  readonly note?: string;
  readonly x: PlotAxis;
  readonly y: PlotAxis;
  /** Adds a dotted line of linear growth, for two logarithmic axes. */
  readonly showsProportion?: boolean;
  readonly curves: readonly {
    readonly label: string;
    readonly points: readonly { readonly x: number; readonly y: number }[];
  }[];
};

type PlotAxis = { readonly label: string; readonly scale: Scale };

/** The bars of ratios, on a logarithmic scale around 1. */
export const ratioPlot = (plot: Pick<BarPlot, 'title' | 'note' | 'target' | 'bars'>): BarPlot => ({
  kind: 'bars',
  unit: '×',
  scale: 'log',
  baseline: 1,
  ...plot,
});
