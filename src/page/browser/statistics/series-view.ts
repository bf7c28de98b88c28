import type { ExactInteger } from '../api/exact-json.ts';
import type { Period, TimeSeries } from '../api/responses.ts';
import { groupLabel } from '../display/dimensions.ts';
import { byId, element } from '../display/elements.ts';
import {
  formatCount,
  formatMoney,
  formatPeriod,
  formatShortCount,
  formatShortMoney,
  formatTick,
} from '../display/format.ts';
import { numberCell, tableOf } from '../display/table.ts';
import { isMoney, type MeasureName } from '../view/view-state.ts';
import type { Chart, ChartLine } from './chart.ts';
import { measureLabels } from './totals.ts';

/** The measure over time: as a chart, with its legend, and as a table. */
export async function renderSeries(
  chart: Chart,
  measure: MeasureName,
  current: TimeSeries,
  previous: TimeSeries | null,
): Promise<void> {
  const { interval, timezone, series } = current;
  byId('chart-title').textContent = `${measureLabels[measure]} over time`;
  const periods = series[0]?.periods ?? [];
  const names = periods.map(({ starts_at }) => formatPeriod(starts_at, interval, timezone));
  const isGrouped = current.series.length > 1;
  const lines: ChartLine[] = series.map(({ key, periods }, index) =>
    lineOf(measure, periods, {
      label: isGrouped ? groupLabel('currency', key) : 'This period',
      currency: isGrouped ? key : current.currency,
      color: `--line-${index + 1}`,
    }),
  );
  const before = previous?.series[0]?.periods ?? [];
  const isComparable =
    !isMoney(measure) ||
    previous?.currency === current.currency ||
    Number(previous?.purchase_count) === 0;
  if (!isGrouped && before.length > 0 && isComparable) {
    const line = lineOf(
      measure,
      names.map((_, index) => before[index]),
      {
        label: 'Previous period',
        currency: current.currency,
        color: '--line-previous',
      },
    );
    lines.push({ ...line, isDashed: true });
  }
  renderLegend(lines);
  renderTable(names, lines);
  await chart.draw({
    periods: names,
    ticks: periods.map(({ starts_at }) => formatTick(starts_at, interval, timezone)),
    lines,
    formatAxis: (value) =>
      isMoney(measure)
        ? formatShortMoney(value / 100, isGrouped ? null : current.currency)
        : formatShortCount(value),
  });
}

function lineOf(
  measure: MeasureName,
  periods: readonly (Period | undefined)[],
  { currency, ...line }: { label: string; color: string; currency: string | null },
): ChartLine {
  const format = (value: ExactInteger) =>
    isMoney(measure) ? formatMoney(value, currency) : formatCount(value);
  return {
    ...line,
    isDashed: false,
    // A pixel needs no exact value.
    values: periods.map((period) => (period === undefined ? null : Number(period[measure]))),
    text: (index) => {
      const period = periods[index];
      return period === undefined ? '–' : format(period[measure]);
    },
  };
}

function renderLegend(lines: readonly ChartLine[]): void {
  byId('legend').replaceChildren(
    ...lines.map(({ label, color, isDashed }) => {
      const mark = element('i', { className: isDashed ? 'dashed' : '' });
      mark.style.setProperty('color', `var(${color})`);
      return element('li', {}, mark, label);
    }),
  );
}

function renderTable(names: readonly string[], lines: readonly ChartLine[]): void {
  const columns = lines.map(({ label }) => ({ name: label, isNumber: true }));
  const rows = names.map((name, index) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row' }, name),
      ...lines.map((line) => numberCell(line.text(index))),
    ),
  );
  byId('chart-table').replaceChildren(tableOf('Periods', [{ name: 'Period' }, ...columns], rows));
}
