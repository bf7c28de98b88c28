import type { Cohort, Cohorts } from '../api/responses.ts';
import { Choice } from '../components/controls.tsx';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import type { View } from '../dashboard/load.ts';
import { Panel } from '../dashboard/panel.tsx';
import { cohortLabel } from '../display/cohort-label.ts';
import type { CsvTable } from '../display/csv.ts';
import { formatAlignedShare, formatCount, formatCounted, formatDays } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { daysOf } from '../view/period.ts';
import { daysOfCohorts } from '../view/requests.ts';
import { type CohortInterval, cohortIntervals } from '../view/view-state.ts';
import { averageRetention, type Retention, retentionOf } from './retention.ts';

/** Whether customers come back, by the period of their first purchase. */
export function CohortPanel() {
  const { state, change } = useDashboard();
  const interval = (
    <Choice
      id="cohort-interval"
      titleId="cohorts-title"
      label={texts.series.by}
      value={state.cohort_interval}
      options={cohortIntervals.map((value) => ({ value, label: texts.intervals[value] }))}
      onSelect={(value) => change({ cohort_interval: value as CohortInterval })}
    />
  );
  return (
    <Panel
      name="cohorts"
      id="cohorts"
      title={texts.cohorts.title}
      controls={interval}
      hint={texts.cohorts.hints[state.cohort_interval]}
      table={tableOf}
    >
      {(value, view) => <CohortTable value={value} view={view} />}
    </Panel>
  );
}

/** Places of the periods after that of the first purchase. */
const laterPeriods = ({ rows }: Cohorts): number[] =>
  Array.from(
    { length: Math.max(0, ...rows.map(({ periods }) => periods.length - 1)) },
    (_, at) => at,
  );

const laterOf = (interval: string, index: number): string =>
  formatCounted(index + 1, texts.cohorts.later[interval as CohortInterval]);

function tableOf(cohorts: Cohorts): CsvTable {
  const { rows, interval, timezone } = cohorts;
  const indexes = laterPeriods(cohorts);
  return {
    columns: [
      texts.cohorts.first,
      texts.measures.customer_count,
      ...indexes.map((index) => laterOf(interval, index)),
    ],
    rows: rows.map((row) => [
      cohortLabel(row.cohort, interval, timezone),
      ...row.periods.map(({ customer_count: count }) => ({ plain: String(count) })),
    ]),
  };
}

function CohortTable({ value, view }: { readonly value: Cohorts; readonly view: View }) {
  const { rows, interval, timezone } = value;
  if (rows.length === 0) {
    const days = daysOfCohorts(view.state, daysOf(view.state, view.at), view.at);
    return <p class="empty">{texts.cohorts.none(formatDays(days))}</p>;
  }
  const indexes = laterPeriods(value);
  const largest = Math.max(...rows.flatMap(retentionOf).map(({ share }) => share));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls only what has the focus.
    <section class="scroll" tabIndex={0} aria-label={texts.cohorts.list}>
      <table class="cohorts">
        <thead>
          <tr>
            <th scope="col">{texts.cohorts.first}</th>
            <th scope="col" class="number">
              {texts.measures.customer_count}
            </th>
            {indexes.map((index) => (
              <th key={index} scope="col" class="number">
                <span aria-hidden="true">+{index + 1}</span>
                <span class="visually-hidden">{laterOf(interval, index)}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.cohort}>
              <th scope="row">{cohortLabel(row.cohort, interval, timezone)}</th>
              <td class="number">{formatCount(row.customer_count)}</td>
              <Cells row={row} indexes={indexes} largest={largest} />
            </tr>
          ))}
          <Average rows={rows} indexes={indexes} />
        </tbody>
      </table>
    </section>
  );
}

type CellsProperties = {
  readonly row: Cohort;
  readonly indexes: readonly number[];
  /** The share of the darkest cell. */
  readonly largest: number;
};

function Cells({ row, indexes, largest }: CellsProperties) {
  const retention = retentionOf(row);
  return indexes.map((index) => {
    const one = retention[index];
    return one === undefined ? <td key={index} /> : <Cell key={index} largest={largest} {...one} />;
  });
}

function Cell({
  share,
  customerCount,
  isComplete,
  largest,
}: Retention & { readonly largest: number }) {
  const heat = largest > 0 ? share / largest : 0;
  return (
    <td
      class={isComplete ? 'heat number' : 'heat number present'}
      style={{ '--heat': `${Math.round(100 * heat)}%` }}
      title={formatCounted(customerCount, texts.cohorts.customers)}
    >
      {formatAlignedShare(share)}
      {!isComplete && <span class="visually-hidden"> {texts.series.untilNow}</span>}
    </td>
  );
}

/** Without periods that are not over. */
function Average({
  rows,
  indexes,
}: Omit<CellsProperties, 'row' | 'largest'> & { readonly rows: readonly Cohort[] }) {
  const size = rows.reduce((sum, { customer_count: count }) => sum + Number(count), 0);
  return (
    <tr class="average">
      <th scope="row">{texts.cohorts.all}</th>
      <td class="number">{formatCount(size)}</td>
      {indexes.map((index) => {
        const share = averageRetention(rows, index);
        return (
          <td key={index} class="number">
            {share === null ? '–' : formatAlignedShare(share)}
          </td>
        );
      })}
    </tr>
  );
}
