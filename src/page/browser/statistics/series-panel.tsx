import { useMemo } from 'preact/hooks';
import { Select } from '../components/controls.tsx';
import { Table } from '../components/table.tsx';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import { NoMatch, NoPurchases } from '../dashboard/empty.tsx';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { dimensionLabel } from '../display/dimensions.ts';
import { isPossible } from '../view/period.ts';
import { canSplit } from '../view/requests.ts';
import { intervals, measureLabels } from '../view/view-state.ts';
import { Chart } from './chart.tsx';
import { chartOf } from './series.ts';

/** The measure over time: as a chart, with its legend, and as a table. */
export function SeriesPanel() {
  const { parts, isBusy } = useDashboard();
  const part = parts.series;
  const totals = parts.totals?.value ?? null;
  const isEmpty = totals !== null && Number(totals.report.totals.purchase_count) === 0;
  const chart = useMemo(
    () => (part?.value && !isEmpty ? chartOf(part.view, part.value) : null),
    [part, isEmpty],
  );
  const library = parts.chartLibrary?.value ?? null;
  const measure = part?.view.state.measure ?? 'revenue_in_cents';
  const isMissing = part !== undefined && (chart === null || (library === null && !isBusy));
  const controls = (
    <>
      {chart !== null && <Legend chart={chart} />}
      <Split />
      <IntervalChoice />
    </>
  );
  return (
    <Panel
      kind="series"
      part={part}
      title={`${measureLabels[measure]} over time`}
      controls={controls}
    >
      <div
        class="chart"
        id="chart"
        aria-hidden={chart !== null || part === undefined}
        data-focus-next="#series-title"
      >
        {chart !== null && library !== null && <Chart library={library} data={chart} />}
        {isMissing && isEmpty && (totals.isUnused ? <NoPurchases /> : <NoMatch />)}
        {isMissing && !isEmpty && <NotLoaded />}
      </div>
      <details class="table-of-chart">
        <summary>Show as a table</summary>
        <div id="chart-table">{chart !== null && <ChartTable chart={chart} />}</div>
      </details>
    </Panel>
  );
}

type ChartProperties = { readonly chart: ReturnType<typeof chartOf> };

function Legend({ chart }: ChartProperties) {
  return (
    <ul class="legend" id="legend" aria-label="Lines">
      {chart.lines.map(({ label, color }) => (
        <li key={color}>
          <i style={{ color: `var(${color})` }} />
          {label}
        </li>
      ))}
      {chart.isTruncated && <li>the largest</li>}
      {chart.isUnfinished && (
        <li>
          <i class="ring" />
          until now
        </li>
      )}
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

function ChartTable({ chart }: ChartProperties) {
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
