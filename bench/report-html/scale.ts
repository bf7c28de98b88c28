import type { Scale } from '../plots.ts';

export type AxisScale = {
  /** 0 at the axis's beginning, 1 at its end. */
  position(value: number): number;
  readonly ticks: readonly number[];
};

/** About as many lines as can be told apart. */
const mostTicks = 7;
const roundSteps = [1, 2, 5, 10] as const;

/** An axis that holds all the values; a linear one begins at 0. */
export function createScale(scale: Scale, values: readonly number[]): AxisScale {
  const shown = values.filter((value) => isShown(scale, value));
  return scale === 'log' ? logarithmic(shown) : linear(shown);
}

/** Infinity and NaN have no place, and 0 has none on a logarithmic axis. */
export const isShown = (scale: Scale, value: number): boolean =>
  Number.isFinite(value) && (scale === 'linear' || value > 0);

function linear(values: readonly number[]): AxisScale {
  const least = Math.min(0, ...values);
  const range = Math.max(0, ...values) - least || 1;
  const rough = range / (mostTicks - 2);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (roundSteps.find((factor) => factor * power >= rough) ?? 10);
  const [first, last] = [Math.floor(least / step), Math.ceil((least + range) / step)];
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  return {
    position: (value) => (value / step - first) / (last - first),
    ticks,
  };
}

function logarithmic(values: readonly number[]): AxisScale {
  const [least, most] = values.length === 0 ? [1, 10] : [Math.min(...values), Math.max(...values)];
  const [lowest, highest] = [Math.floor(Math.log10(least)) - 1, Math.ceil(Math.log10(most)) + 1];
  const powers = Array.from({ length: highest - lowest + 1 }, (_, index) => lowest + index);
  const round = powers.flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
  const from = round.findLast((tick) => tick <= least) as number;
  const to = round.find((tick) => tick >= most && tick > from) as number;
  const ticks = round.filter((tick) => tick >= from && tick <= to);
  const length = Math.log10(to / from);
  return {
    position: (value) => Math.log10(value / from) / length,
    ticks:
      ticks.length <= mostTicks ? ticks : ticks.filter((tick) => /^1e/.test(tick.toExponential())),
  };
}

/** Three digits are enough to look at; thousands as k and M. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const options = { maximumSignificantDigits: 3, notation: 'compact' } as const;
  return value.toLocaleString('en', options);
}
