import type { BarPlot } from '../plots.ts';
import { type Markup, markup } from './markup.ts';
import { createScale, isShown, shortNumber } from './scale.ts';

// In units of the drawing, which is scaled to the page's width.
const width = 400;
const sides = 8;
const top = 4;
const row = 38;
const axis = 34;
const longestLabel = 46;

/** Where a value is, from left to right. */
type Place = (value: number) => number;

/** Each label with its value, and under it the bar with a line from quartile to quartile. */
export function drawBars(plot: BarPlot): Markup {
  const { unit, scale, baseline, target, bars, title } = plot;
  const marked = [baseline, target?.value].filter((value) => typeof value === 'number');
  const measured = bars.flatMap(({ value: { median, lowerQuartile, upperQuartile } }) => [
    median,
    lowerQuartile,
    upperQuartile,
  ]);
  const { position, ticks } = createScale(scale, [...measured, ...marked]);
  const place: Place = (value) =>
    sides + (width - 2 * sides) * (isShown(scale, value) ? position(value) : 0);
  const bottom = top + bars.length * row;
  return markup`<svg viewBox="0 0 ${width} ${bottom + axis}" role="img" aria-label="${title}">
${ticks.map((tick) => drawLine('grid', place(tick), bottom, 13, shortNumber(tick) + unit))}
${baseline === null ? [] : drawLine('baseline', place(baseline), bottom)}
${bars.map((bar, index) => drawBar(bar, top + index * row, plot, place))}
${target === undefined ? [] : drawLine('target', place(target.value), bottom, 28, target.label)}
</svg>`;
}

function drawLine(name: string, x: number, bottom: number, below = 0, label = ''): Markup {
  return markup`<line class="${name}" x1="${x}" x2="${x}" y1="0" y2="${bottom + Math.max(0, below - 11)}"/>
<text class="tick ${name}-label" x="${x}" y="${bottom + below}" text-anchor="${anchor(x)}">${label}</text>`;
}

type Bar = BarPlot['bars'][number];

function drawBar({ label, value }: Bar, y: number, plot: BarPlot, place: Place): Markup {
  const { median, lowerQuartile: lower, upperQuartile: upper } = value;
  const { unit } = plot;
  const written = (number: number) => shortNumber(number) + unit;
  const exact = `${label}: ${written(median)}, quartiles ${written(lower)} and ${written(upper)}`;
  const middle = y + 25;
  return markup`<g><title>${exact}</title>
<text class="label" x="${sides}" y="${y + 13}">${shorten(label)}</text>
<text class="value" x="${width - sides}" y="${y + 13}" text-anchor="end">${written(median)}</text>
${drawMedian(median, middle, plot, place)}
<path class="whisker" d="M${place(lower)} ${middle - 4}v8m0 -4H${place(upper)}m0 -4v8"/></g>`;
}

function drawMedian(median: number, y: number, { baseline, scale }: BarPlot, place: Place): Markup {
  const x = place(median);
  if (baseline === null) return markup`<circle class="bar" cx="${x}" cy="${y}" r="5"/>`;
  const from = place(baseline);
  // Ratios have two sides; amounts begin at nothing.
  const side = scale === 'log' && median < baseline ? ' less' : '';
  const length = Math.max(1, Math.abs(x - from));
  return markup`<rect class="bar${side}" x="${Math.min(from, x)}" y="${y - 7}" width="${length}" height="14" rx="2"/>`;
}

/** Keeps what stands at an edge inside the drawing. */
function anchor(x: number): string {
  if (x < 60) return 'start';
  return x > width - 60 ? 'end' : 'middle';
}

const shorten = (label: string): string =>
  label.length > longestLabel ? `${label.slice(0, longestLabel - 1)}…` : label;
