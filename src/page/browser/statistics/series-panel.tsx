import { useMemo } from 'preact/hooks';
import { Select } from '../components/controls.tsx';
import { Table } from '../components/table.tsx';
import { type Loaded, useDashboard } from '../dashboard/dashboard-state.ts';
import { NoMatch, NoPurchases } from '../dashboard/empty.tsx';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { dimensionLabel } from '../display/dimensions.ts';
import { isPossible } from '../view/period.ts';
import { intervals, measureLabels } from '../view/view-state.ts';
import { Chart } from './chart.tsx';
import { chartOf } from './series.ts';

/** The measure over time: as a chart, with its legend, and as a table. */
export function SeriesPanel() {
  const { shown } = useDashboard();
  const chart = useMemo(() => shown && seriesOf(shown), [shown?.view, shown?.data.series]);
  const library = shown?.data.chartLibrary ?? null;
  const measure = shown?.view.state.measure ?? 'revenue_in_cents';
  const controls = (
    <>
      <ul class="legend" id="legend" aria-label="Lines">
        {chart?.lines.map(({ label, color }) => (
          <li key={color}>
            <i style={{ color: `var(${color})` }} />
            {label}
          </li>
        ))}
        {chart !== null && shown?.data.series?.current.series_truncated && <li>the largest</li>}
      </ul>
      <Split />
      <IntervalChoice />
    </>
  );
  return (
    <Panel kind="series" title={`${measureLabels[measure]} over time`} controls={controls}>
      <div
        class="chart"
        id="chart"
        aria-hidden={chart !== null || shown === null}
        data-focus-next="#series-title"
      >
        {chart !== null && library !== null && <Chart library={library} data={chart} />}
        {shown !== null && (chart === null || library === null) && <NoChart shown={shown} />}
      </div>
      <details class="table-of-chart">
        <summary>Show as a table</summary>
        <div id="chart-table">{chart !== null && <ChartTable chart={chart} />}</div>
      </details>
    </Panel>
  );
}

const isEmpty = ({ data }: Loaded): boolean =>
  data.ranking !== null && Number(data.ranking.body.purchase_count) === 0;

/** Null if no purchase matches, or the series is not loaded. */
function seriesOf(shown: Loaded) {
  const { series } = shown.data;
  return series === null || isEmpty(shown) ? null : chartOf({ ...shown.view, ...series });
}

function Split() {
  const { state, change } = useDashboard();
  // A chart of days has no line for each day.
  const canSplit = state.group_by !== 'day';
  return (
    <label class="inline">
      <input
        type="checkbox"
        checked={canSplit && state.split === 'groups'}
        disabled={!canSplit}
        onChange={({ currentTarget }) =>
          change({ split: currentTarget.checked ? 'groups' : 'none' })
        }
      />{' '}
      <span>by {dimensionLabel(state.group_by)}</span>
    </label>
  );
}

function IntervalChoice() {
  const { state, days, change } = useDashboard();
  const options = Object.entries(intervals).map(([value, label]) => ({
    value,
    label,
    disabled: !isPossible(value, days),
  }));
  return (
    <label class="inline" for="interval">
      <span id="interval-label">by</span>
      <Select
        id="interval"
        aria-labelledby="series-title interval-label"
        value={state.interval}
        options={options}
        onSelect={(interval) => change({ interval })}
      />
    </label>
  );
}

function NoChart({ shown }: { readonly shown: Loaded }) {
  if (!isEmpty(shown)) return <NotLoaded />;
  return shown.data.isUnused ? <NoPurchases /> : <NoMatch />;
}

function ChartTable({ chart }: { readonly chart: ReturnType<typeof chartOf> }) {
  const columns = chart.lines.map(({ label }) => ({ name: label, isNumber: true }));
  return (
    <Table label="Periods" columns={[{ name: 'Period' }, ...columns]}>
      {chart.names.map((name, index) => (
        <tr key={name}>
          <th scope="row">{name}</th>
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
