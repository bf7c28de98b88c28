import type uPlot from 'uplot';
import { unreachable } from '../api/api.ts';
import { element } from '../display/elements.ts';
import { language } from '../display/format.ts';
import { type ChartLine, isolated, partsOf } from './chart-line.ts';

/** Draws lines over periods. The table beside the chart has the same values for screen readers. */

type ChartData = {
  /** Above the values in the tooltip. */
  title(index: number): string;
  /** One for each period. */
  readonly ticks: readonly string[];
  readonly lines: readonly ChartLine[];
  formatAxis(value: number): string;
};

export type Chart = { draw(data: ChartData): Promise<void>; clear(): void };

const height = 260;
const tickGap = 28;

/** The library is loaded with the first chart. */
async function loadLibrary(): Promise<typeof uPlot> {
  requireLanguageTag();
  const { default: library } = await import('/assets/uplot.js' as string).catch(() => {
    throw unreachable();
  });
  return library;
}

/** Under a POSIX locale, Chromium has `en-US@posix`, with which the library's first statement fails. */
function requireLanguageTag(): void {
  try {
    Intl.getCanonicalLocales(navigator.language);
  } catch {
    Object.defineProperty(navigator, 'language', { value: language });
  }
}

export function createChart(container: HTMLElement): Chart {
  let plot: uPlot | null = null;
  let shown: ChartData | null = null;
  const clear = () => {
    plot?.destroy();
    plot = null;
    shown = null;
  };
  const draw = async (data: ChartData) => {
    const library = await loadLibrary();
    clear();
    container.replaceChildren();
    const values = data.lines.flatMap(partsOf);
    const positions = data.ticks.map((_, index) => index);
    plot = new library(optionsOf(data, container), [positions, ...values], container);
    shown = data;
  };
  new ResizeObserver(() => {
    const width = container.clientWidth;
    if (plot !== null && width > 0 && width !== plot.width) plot.setSize({ width, height });
  }).observe(container);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    if (shown !== null) void draw(shown);
  });
  return { draw, clear };
}

function optionsOf(data: ChartData, container: HTMLElement): uPlot.Options {
  const styles = getComputedStyle(document.documentElement);
  const color = (name: string) => styles.getPropertyValue(name).trim();
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: color('--muted'), font, ticks: { show: false } };
  const grid = { stroke: color('--border'), width: 1 };
  const isPoint = data.ticks.length === 1;
  const isFilled = data.lines.filter(({ color }) => color !== '--line-previous').length === 1;
  return {
    width: container.clientWidth,
    height,
    legend: { show: false },
    padding: [12, 28, 0, 4],
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
        splits: (plot) => ticksOf(data.ticks, plot.width),
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
        const part = {
          stroke: color(line.color),
          width: 2,
          points: {
            // The dashed part of one value is a point of the whole line.
            filter: (plot: uPlot, part: number) => {
              const whole = isolated(line.values);
              return isolated([...(plot.data[part] ?? [])]).filter((one) => whole.includes(one));
            },
          },
          ...(isFilled && index === 0 ? { fill: color('--line-fill') } : {}),
        };
        return [part, { ...part, dash: [4, 4] }];
      }),
    ],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
    hooks: { ready: [(plot) => addTooltip(plot, data)] },
  };
}

/** Indexes that leave room for their labels. */
function ticksOf(labels: readonly string[], width: number): number[] {
  const count = labels.length;
  const tickWidth = 7 * Math.max(...labels.map(({ length }) => length)) + tickGap;
  const step = Math.max(1, Math.ceil(count / Math.max(1, Math.floor(width / tickWidth))));
  return Array.from({ length: Math.ceil(count / step) }, (_, index) => index * step);
}

function addTooltip(plot: uPlot, data: ChartData): void {
  const tooltip = element('div', { className: 'tooltip', hidden: true });
  plot.over.append(tooltip);
  plot.hooks.setCursor = [
    () => {
      const { idx, left = -1 } = plot.cursor;
      tooltip.hidden = idx === null || idx === undefined || left < 0;
      if (tooltip.hidden) return;
      const index = idx as number;
      const rows = data.lines.map((line) => {
        const mark = element('i');
        mark.style.setProperty('background', `var(${line.color})`);
        const name = `${line.names[index] ?? ''} `;
        return element('div', {}, mark, name, element('strong', {}, line.text(index)));
      });
      tooltip.replaceChildren(data.title(index), ...rows);
      const space = plot.over.clientWidth;
      const position = plot.valToPos(index, 'x');
      const isRight = position > space / 2;
      tooltip.style.setProperty('left', isRight ? 'auto' : `${position + 12}px`);
      tooltip.style.setProperty('right', isRight ? `${space - position + 12}px` : 'auto');
    },
  ];
}
