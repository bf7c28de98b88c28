import { useMemo } from 'preact/hooks';
import type { Series } from '../api/series.ts';
import { Choice } from '../components/controls.tsx';
import { Label } from '../components/label.tsx';
import { Table } from '../components/table.tsx';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import type { View } from '../dashboard/load.ts';
import { NoMatch } from '../dashboard/no-match.tsx';
import { NoPurchases } from '../dashboard/no-purchases.tsx';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { reportTable } from '../display/csv.ts';
import { dimensionLabel } from '../display/dimensions.ts';
import { measureLabel } from '../display/measures.ts';
import { texts } from '../language/language.ts';
import { isPossible } from '../view/period.ts';
import { canSplit } from '../view/requests.ts';
import { intervals } from '../view/view-state.ts';
import { Chart } from './chart.tsx';
import { chartOf } from './series.ts';

/** The measure over time: as a chart, with its legend, and as a table. */
export function SeriesPanel() {
  const { parts, state } = useDashboard();
  const shown = parts.series?.view.state ?? state;
  const controls = (
    <>
      <Split />
      <IntervalChoice />
    </>
  );
  return (
    <Panel
      name="series"
      id="series"
      title={texts.series.title(measureLabel(shown.measure, shown))}
      controls={controls}
      table={tableOf}
    >
      {(series, view) => <SeriesChart series={series} view={view} />}
    </Panel>
  );
}

const tableOf = (series: Series, { state }: View) =>
  reportTable({ ...series, group_by: [series.interval, series.group_by ?? []].flat() }, state);

function SeriesChart({ series, view }: { readonly series: Series; readonly view: View }) {
  const { parts, change } = useDashboard();
  const totals = parts.totals?.value ?? null;
  const isEmpty = totals !== null && Number(totals.report.totals.purchase_count) === 0;
  const chart = useMemo(() => chartOf(view, series), [view, series]);
  const { library } = parts;
  const select = (first: number, last: number) => {
    const [from, to] = [chart.days[first]?.from, chart.days[last]?.to];
    if (from !== undefined && to !== undefined) change({ period: 'custom', from, to });
  };
  if (isEmpty) return totals.isUnused ? <NoPurchases /> : <NoMatch />;
  return (
    <>
      <Legend chart={chart} />
      <div class="chart" id="chart" aria-hidden="true">
        {library?.value && <Chart library={library.value} data={chart} onSelect={select} />}
        {library?.value === null && <NotLoaded />}
      </div>
      <details class="table-of-chart">
        <summary>{texts.series.showTable}</summary>
        <div id="chart-table" data-focus-next="#series-title">
          <ChartTable chart={chart} onSelect={select} />
        </div>
      </details>
    </>
  );
}

type ChartProperties = { readonly chart: ReturnType<typeof chartOf> };
type ChartTableProperties = ChartProperties & { onSelect(first: number, last: number): void };

function Legend({ chart }: ChartProperties) {
  return (
    <ul class="legend" id="legend" aria-label={texts.series.lines}>
      {chart.lines.map(({ label, color }) => (
        <li key={color}>
          <i style={{ color: `var(${color})` }} />
          <Label text={label} />
        </li>
      ))}
      {chart.isTruncated && <li>{texts.series.largest}</li>}
      {chart.partial.map((text) => (
        <li key={text}>
          <i class="ring" />
          {text}
        </li>
      ))}
    </ul>
  );
}

function Split() {
  const { state, change } = useDashboard();
  const isSplittable = canSplit(state.group_by);
  return (
    <label class="inline">
      <input
        type="checkbox"
        checked={isSplittable && state.split === 'groups'}
        disabled={!isSplittable}
        onChange={({ currentTarget }) =>
          change({ split: currentTarget.checked ? 'groups' : 'none' })
        }
      />{' '}
      <span>{texts.series.byDimension(dimensionLabel(state.group_by))}</span>
    </label>
  );
}

function IntervalChoice() {
  const { state, days, change } = useDashboard();
  const options = intervals.map((value) => ({
    value,
    label: texts.intervals[value],
    disabled: !isPossible(value, days, state.compare_to),
  }));
  return (
    <Choice
      id="interval"
      titleId="series-title"
      label={texts.series.by}
      value={state.interval}
      options={options}
      onSelect={(interval) => change({ interval })}
    />
  );
}

/** Its names do with the keyboard what the pointer does over the chart. */
function ChartTable({ chart, onSelect }: ChartTableProperties) {
  const columns = chart.lines.map(({ label }) => ({ name: label, isNumber: true }));
  return (
    <Table label={texts.series.periods} columns={[{ name: texts.series.period }, ...columns]}>
      {chart.names.map((name, index) => (
        <tr key={name}>
          <th scope="row">
            <button
              type="button"
              class="link"
              title={texts.ranking.showOnly(name)}
              onClick={() => onSelect(index, index)}
            >
              {name}
            </button>
          </th>
          {chart.lines.map((line) => (
            <td key={line.color} class="number">
              {line.text(index)}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
