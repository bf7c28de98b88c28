import * as ObservablePlot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import { Markup, markup } from './markup.ts';
import type { BarPlot, CurvePlot, Scale } from './plots.ts';

const width = 400;
const barHeight = 38;
/** More points would hide the line. */
const maxDrawnPoints = 40;
const seriesCount = 6;

const { document } = parseHTML('<html></html>');
/** The title is escaped here: linkedom leaves `<` in attributes. */
function draw(title: string, options: ObservablePlot.PlotOptions): Markup {
  const chart = new Markup(ObservablePlot.plot({ document, width, ...options }).outerHTML);
  return markup`<div role="img" aria-label="${title}">${chart}</div>`;
}

/** A logarithmic axis has no position for 0 or less; no axis has one for a missing value. */
const isDrawable = (scale: Scale, ...values: number[]): boolean =>
  values.every((value) => Number.isFinite(value) && (scale === 'linear' || value > 0));

/** Each label with its value above its bar, with a line between the quartiles. */
export function drawBars({ title, unit, scale, baseline, target, bars }: BarPlot): Markup {
  const rows = bars.map(({ label, value }, index) => ({ label, index, ...value }));
  const drawn = rows.filter(({ median, lowerQuartile, upperQuartile }) =>
    isDrawable(scale, median, lowerQuartile, upperQuartile),
  );
  const formatted = (value: number) => shortNumber(value) + unit;
  const tooltip = ({ label, median, lowerQuartile, upperQuartile }: (typeof rows)[number]) =>
    `${label}: ${formatted(median)}, quartiles ${formatted(lowerQuartile)} and ${formatted(upperQuartile)}`;
  const row = { y: 'index', title: tooltip };
  const text = { y: 'index', dy: -11, frameAnchor: 'left', className: 'label' } as const;
  return draw(title, {
    height: rows.length * barHeight + 50,
    marginLeft: 8,
    marginRight: 8,
    x: {
      type: scale,
      grid: true,
      label: target === undefined ? unit.trim() : `${unit.trim()} (dashed: ${target.label})`,
      tickFormat: shortNumber,
      ticks: 5,
    },
    y: { type: 'band', axis: null, domain: rows.map(({ index }) => index) },
    marks: [
      baseline === null
        ? ObservablePlot.dot(drawn, { ...row, x: 'median', dy: 8, r: 5, fill: 'var(--bar)' })
        : ObservablePlot.barX(drawn, {
            ...row,
            x1: () => baseline,
            x2: 'median',
            insetTop: 20,
            fill: ({ median }) => (scale === 'log' && median < baseline ? 'less' : 'bar'),
          }),
      ObservablePlot.ruleY(drawn, { y: 'index', dy: 8, x1: 'lowerQuartile', x2: 'upperQuartile' }),
      ...(baseline === null ? [] : [ObservablePlot.ruleX([baseline], { stroke: 'var(--faint)' })]),
      ObservablePlot.ruleX(target === undefined ? [] : [target.value], {
        stroke: 'var(--target)',
        strokeDasharray: '5 4',
      }),
      ObservablePlot.text(rows, { ...text, text: 'label' }),
      ObservablePlot.text(rows, {
        ...text,
        frameAnchor: 'right',
        text: ({ median }) => formatted(median),
        fontWeight: 'bold',
      }),
    ],
    color: { type: 'ordinal', domain: ['bar', 'less'], range: ['var(--bar)', 'var(--less)'] },
  });
}

/** Lines over two axes, with a legend. */
export function drawCurves({ title, x, y, curves, showsProportion }: CurvePlot): Markup {
  const points = curves.flatMap((curve) =>
    curve.points
      .filter((point) => isDrawable(x.scale, point.x) && isDrawable(y.scale, point.y))
      .map((point) => ({ ...point, label: curve.label })),
  );
  const tooltip = (point: (typeof points)[number]) =>
    `${point.label}: ${shortNumber(point.y)} ${y.label} at ${shortNumber(point.x)} ${x.label}`;
  const withPoints = curves
    .filter((curve) => curve.points.length <= maxDrawnPoints)
    .map(({ label }) => label);
  const channels = { x: 'x', y: 'y', stroke: 'label' } as const;
  const colour = (index: number) => `var(--series-${index % seriesCount})`;
  const chart = draw(title, {
    height: 280,
    marginLeft: 46,
    x: { type: x.scale, grid: true, label: x.label, tickFormat: shortNumber, ticks: 5 },
    y: { type: y.scale, grid: true, label: y.label, tickFormat: shortNumber, ticks: 5 },
    color: {
      domain: curves.map(({ label }) => label),
      range: curves.map((_, index) => colour(index)),
    },
    marks: [
      ...(showsProportion === true
        ? [ObservablePlot.line(proportion(points), { x: 'x', y: 'y', strokeDasharray: '1 5' })]
        : []),
      ObservablePlot.line(points, { ...channels, z: 'label', strokeWidth: 2 }),
      ObservablePlot.dot(
        points.filter(({ label }) => withPoints.includes(label)),
        { ...channels, fill: 'label', r: 3.5, title: tooltip },
      ),
    ],
  });
  const legend = curves.map(
    ({ label }, index) => markup`<li class="series-${index % seriesCount}">${label}</li>`,
  );
  return markup`${chart}
<ul class="legend">${legend}</ul>`;
}

type Point = { readonly x: number; readonly y: number };

/** From the lowest point: a steeper curve grows faster than linearly. */
function proportion(points: readonly Point[]): Point[] {
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  const factor = Math.min(Math.max(...xs) / x, Math.max(...ys) / y);
  if (!(factor > 1)) return [];
  return [
    { x, y },
    { x: x * factor, y: y * factor },
  ];
}

/** Three digits; thousands as K and M. */
function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const options = { maximumSignificantDigits: 3, notation: 'compact' } as const;
  return value.toLocaleString('en', options);
}
