import { render } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { Label } from '../components/label.tsx';
import { type ChartLine, isolated, partsOf } from './chart-line.ts';

export type ChartData = {
  /** Above the values in the tooltip. */
  title(index: number): string;
  /** One for each period. */
  readonly ticks: readonly string[];
  readonly lines: readonly ChartLine[];
  /** Of each period, whether a part of it is missing. */
  readonly isPartial: readonly boolean[];
  formatAxis(value: number): string;
};

const height = 260;
const tickGap = 16;
/** A shorter movement of the pointer is a click. */
const minSelectedPixels = 6;

type ChartProperties = {
  readonly library: typeof uPlot;
  readonly data: ChartData;
  /** The first and the last period over which the pointer was dragged. */
  onSelect(first: number, last: number): void;
};

/** Draws lines over periods. The table beside the chart has the same values for screen readers. */
export function Chart({ library, data, onSelect }: ChartProperties) {
  const container = useRef<HTMLDivElement>(null);
  const select = useRef(onSelect);
  select.current = onSelect;
  useLayoutEffect(() => {
    const element = container.current as HTMLDivElement;
    const count = data.ticks.length;
    // A compared time may have fewer periods.
    const valuesOf = ({ values }: ChartLine) =>
      Array.from({ length: count }, (_, index) => values[index] ?? null);
    const values = data.lines.flatMap((line) => partsOf(valuesOf(line), data.isPartial));
    const positions = data.ticks.map((_, index) => index);
    const options = () => ({
      ...optionsOf(data, element),
      hooks: {
        ready: [(plot: uPlot) => addTooltip(plot, data)],
        setSelect: [
          (plot: uPlot) => {
            const selected = selectedIn(plot);
            if (selected !== null) select.current(...selected);
          },
        ],
      },
    });
    const draw = () => new library(options(), [positions, ...values], element);
    let plot = draw();
    const redraw = () => {
      plot.destroy();
      plot = draw();
    };
    const resizing = new ResizeObserver(() => {
      const { clientWidth: width } = element;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height });
    });
    resizing.observe(element);
    const darkness = matchMedia('(prefers-color-scheme: dark)');
    darkness.addEventListener('change', redraw);
    // Paper is light, and has another width.
    const printing = matchMedia('print');
    printing.addEventListener('change', redraw);
    return () => {
      printing.removeEventListener('change', redraw);
      darkness.removeEventListener('change', redraw);
      resizing.disconnect();
      plot.destroy();
    };
  }, [library, data]);
  return <div ref={container} />;
}

function optionsOf(data: ChartData, container: HTMLElement): uPlot.Options {
  // Only a property such as `color` has the value of the present colour scheme.
  const color = (name: string) => {
    container.style.color = `var(${name})`;
    return getComputedStyle(container).color;
  };
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: color('--muted'), font, ticks: { show: false } };
  const grid = { stroke: color('--border'), width: 1 };
  // Room for the first and the last label, the first beside the labels of values.
  const halfTick = 3.5 * Math.max(...data.ticks.map(({ length }) => length));
  const isPoint = data.ticks.length === 1;
  const isFilled = data.lines.filter(({ color }) => color !== '--line-previous').length === 1;
  return {
    width: container.clientWidth,
    height,
    legend: { show: false },
    padding: [12, Math.max(28, halfTick), 0, Math.max(4, halfTick - 36)],
    scales: {
      x: { time: false, range: (_plot, min, max) => (isPoint ? [-1, 1] : [min, max]) },
      y: { range: (_plot, min, max) => [Math.min(0, min), Math.max(max * 1.08, min < 0 ? 0 : 1)] },
    },
    axes: [
      {
        ...axis,
        size: 34,
        gap: 9,
        grid: { show: false },
        splits: ({ bbox }) => ticksOf(data.ticks, bbox.width / devicePixelRatio),
        values: (_plot, splits) => splits.map((index) => data.ticks[index] ?? ''),
      },
      {
        ...axis,
        grid,
        size: (_plot, labels) =>
          14 + 7 * Math.max(3, ...(labels ?? []).map(({ length }) => length)),
        values: (_plot, splits) => splits.map(data.formatAxis),
      },
    ],
    series: [
      {},
      ...data.lines.flatMap((line, index): uPlot.Series[] => {
        const stroke = color(line.color);
        const fill = isFilled && index === 0 ? { fill: color('--line-fill') } : {};
        const whole: uPlot.Series = {
          ...{ stroke, width: 2, ...fill },
          points: { filter: (plot, part) => isolated([...(plot.data[part] ?? [])]) },
        };
        const present: uPlot.Series = {
          stroke,
          paths: () => null,
          points: { show: true, size: 9, width: 2, fill: color('--surface') },
        };
        return [whole, present];
      }),
    ],
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 8 } },
  };
}

/** The periods under the selection; the nearest one if it has none. Null if nothing is selected. */
function selectedIn(plot: uPlot): [number, number] | null {
  const { left, width } = plot.select;
  if (width < minSelectedPixels) return null;
  const first = Math.ceil(plot.posToVal(left, 'x'));
  const last = Math.floor(plot.posToVal(left + width, 'x'));
  const nearest = plot.posToIdx(left + width / 2);
  return first > last ? [nearest, nearest] : [first, last];
}

/** Indexes that leave room for their labels, in a width between the first and the last one. */
function ticksOf(labels: readonly string[], width: number): number[] {
  const count = labels.length;
  const tickWidth = 7 * Math.max(...labels.map(({ length }) => length)) + tickGap;
  const step = Math.max(1, Math.ceil(count / Math.max(1, Math.floor(width / tickWidth))));
  return Array.from({ length: Math.ceil(count / step) }, (_, index) => index * step);
}

function addTooltip(plot: uPlot, data: ChartData): void {
  const container = plot.over.appendChild(document.createElement('div'));
  plot.hooks.setCursor = [
    () => {
      const { idx: index, left = -1 } = plot.cursor;
      const isOver = index !== null && index !== undefined && left >= 0;
      render(isOver ? <Tooltip plot={plot} data={data} index={index} /> : null, container);
    },
  ];
}

type TooltipProperties = {
  readonly plot: uPlot;
  readonly data: ChartData;
  readonly index: number;
};

function Tooltip({ plot, data, index }: TooltipProperties) {
  const space = plot.over.clientWidth;
  const position = plot.valToPos(index, 'x');
  const style =
    position > space / 2 ? { right: `${space - position + 12}px` } : { left: `${position + 12}px` };
  return (
    <div class="tooltip floating" style={style}>
      {data.title(index)}
      {data.lines.map((line) => (
        <div key={line.color}>
          <i style={{ background: `var(${line.color})` }} />
          <Label text={line.names[index] ?? ''} /> <strong>{line.text(index)}</strong>
        </div>
      ))}
    </div>
  );
}
