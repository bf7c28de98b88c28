import type { Curve, CurvePlot, PlotAxis } from '../plots.ts';
import { type Markup, markup } from './markup.ts';
import { type AxisScale, createScale, isShown, shortNumber } from './scale.ts';

// In units of the drawing, which is scaled to the page's width.
const width = 400;
const height = 280;
const left = 46;
const right = width - 14;
const top = 10;
const bottom = height - 40;
/** More than these would hide the curve. */
const mostMarks = 40;
const colours = 6;

type Place = (point: { readonly x: number; readonly y: number }) => { x: number; y: number };

/** Curves over two axes, and which is which. */
export function drawCurves(plot: CurvePlot): Markup {
  const { x, y, curves, title } = plot;
  const shown = curves.map(({ label, points }) => ({
    label,
    points: points.filter((point) => isShown(x.scale, point.x) && isShown(y.scale, point.y)),
  }));
  const points = shown.flatMap((curve) => curve.points);
  const scales = {
    x: createScale(
      x.scale,
      points.map((point) => point.x),
    ),
    y: createScale(
      y.scale,
      points.map((point) => point.y),
    ),
  };
  const place: Place = (point) => ({
    x: left + scales.x.position(point.x) * (right - left),
    y: bottom - scales.y.position(point.y) * (bottom - top),
  });
  return markup`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">
${drawAxes(x, y, scales)}
${plot.showsProportion === true ? drawProportion(points, place) : []}
${shown.map((curve, index) => drawCurve(curve, index, plot, place))}
</svg>
<ul class="legend">
${shown.map(({ label }, index) => markup`<li class="${classOf(index)}">${label}</li>`)}
</ul>`;
}

function drawAxes(x: PlotAxis, y: PlotAxis, scales: Record<'x' | 'y', AxisScale>): Markup[] {
  const vertical = scales.x.ticks.map((tick) => {
    const at = left + scales.x.position(tick) * (right - left);
    return markup`<line class="grid" x1="${at}" x2="${at}" y1="${top}" y2="${bottom}"/>
<text class="tick" x="${at}" y="${bottom + 15}" text-anchor="middle">${shortNumber(tick)}</text>`;
  });
  const horizontal = scales.y.ticks.map((tick) => {
    const at = bottom - scales.y.position(tick) * (bottom - top);
    return markup`<line class="grid" x1="${left}" x2="${right}" y1="${at}" y2="${at}"/>
<text class="tick" x="${left - 5}" y="${at + 4}" text-anchor="end">${shortNumber(tick)}</text>`;
  });
  return [
    ...vertical,
    ...horizontal,
    markup`<text class="tick strong" x="${right}" y="${height - 6}" text-anchor="end">${x.label}</text>
<text class="tick strong" x="${left + 6}" y="${top + 12}">${y.label}</text>`,
  ];
}

function drawCurve({ label, points }: Curve, index: number, plot: CurvePlot, place: Place): Markup {
  const places = points.map(place);
  const path = places.map((at) => `${at.x.toFixed(1)} ${at.y.toFixed(1)}`).join('L');
  const marks =
    points.length > mostMarks
      ? []
      : points.map((point) => {
          const at = place(point);
          const exact = `${label}: ${shortNumber(point.y)} ${plot.y.label} at ${shortNumber(point.x)} ${plot.x.label}`;
          return markup`<circle cx="${at.x}" cy="${at.y}" r="3.5"><title>${exact}</title></circle>`;
        });
  return markup`<g class="curve ${classOf(index)}">
${path === '' ? [] : markup`<path d="M${path}"/>`}
${marks}
</g>`;
}

/** From the lowest point upwards: whoever climbs more steeply grows faster than proportionally. */
function drawProportion(points: readonly { x: number; y: number }[], place: Place): Markup[] {
  const least = Math.min(...points.map((point) => point.x));
  const lowest = Math.min(...points.map((point) => point.y));
  const [most, highest] = [
    Math.max(...points.map((point) => point.x)),
    Math.max(...points.map((point) => point.y)),
  ];
  const factor = Math.min(most / least, highest / lowest);
  if (!(factor > 1)) return [];
  const from = place({ x: least, y: lowest });
  const to = place({ x: least * factor, y: lowest * factor });
  return [
    markup`<line class="proportion" x1="${from.x}" y1="${from.y}" x2="${to.x}" y2="${to.y}"/>`,
  ];
}

/** Beyond the colours that there are, curves are dashed. */
const classOf = (index: number): string =>
  `series-${index % colours}${index >= colours ? ' dashed' : ''}`;
