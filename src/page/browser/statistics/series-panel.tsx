import { useMemo } from 'preact/hooks';
import { Choice } from '../components/controls.tsx';
import { Table } from '../components/table.tsx';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import { NoMatch, NoPurchases } from '../dashboard/empty.tsx';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { dimensionLabel } from '../display/dimensions.ts';
import { texts } from '../language/language.ts';
import { isPossible } from '../view/period.ts';
import { canSplit } from '../view/requests.ts';
import { intervals } from '../view/view-state.ts';
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
      title={texts.series.title(texts.measures[measure])}
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
        <summary>{texts.series.showTable}</summary>
        <div id="chart-table">{chart !== null && <ChartTable chart={chart} />}</div>
      </details>
    </Panel>
  );
}

type ChartProperties = { readonly chart: ReturnType<typeof chartOf> };

function Legend({ chart }: ChartProperties) {
  return (
    <ul class="legend" id="legend" aria-label={texts.series.lines}>
      {chart.lines.map(({ label, color }) => (
        <li key={color}>
          <i style={{ color: `var(${color})` }} />
          {label}
        </li>
      ))}
      {chart.isTruncated && <li>{texts.series.largest}</li>}
      {chart.isUnfinished && (
        <li>
          <i class="ring" />
          {texts.series.untilNow}
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

function ChartTable({ chart }: ChartProperties) {
  const columns = chart.lines.map(({ label }) => ({ name: label, isNumber: true }));
  return (
    <Table label={texts.series.periods} columns={[{ name: texts.series.period }, ...columns]}>
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
