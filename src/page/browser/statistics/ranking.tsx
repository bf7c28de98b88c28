import type { Report, ReportRow } from '../api/responses.ts';
import { Choice } from '../components/controls.tsx';
import { type DashboardState, useDashboard } from '../dashboard/dashboard-state.ts';
import type { View } from '../dashboard/load.ts';
import { Panel } from '../dashboard/panel.tsx';
import { reportTable } from '../display/csv.ts';
import { dimensions } from '../display/dimensions.ts';
import { texts } from '../language/language.ts';
import { dayAt } from '../view/calendar.ts';
import { type Filters, filterNamed, withMissing, withValues } from '../view/filters.ts';
import { GroupsTable } from './groups-table.tsx';

export const RankingPanel = () => (
  <Panel
    name="ranking"
    id="ranking"
    title={texts.ranking.title}
    controls={<Dimensions />}
    table={(report, { state }) => reportTable(report, state)}
  >
    {(report, view) => <Ranking report={report} view={view} />}
  </Panel>
);

const noDimension = { value: 'none', label: texts.ranking.nothingElse };

function Dimensions() {
  const { state, change } = useDashboard();
  const others = dimensions.filter(({ value }) => value !== state.group_by);
  return (
    <>
      <Choice
        id="dimension"
        titleId="ranking-title"
        label={texts.ranking.by}
        value={state.group_by}
        options={dimensions}
        onSelect={(group_by) => change({ group_by, group_limit: '10' })}
      />
      <Choice
        id="second-dimension"
        titleId="ranking-title"
        label={texts.ranking.and}
        value={state.then_by}
        options={[noDimension, ...others]}
        onSelect={(then_by) => change({ then_by, group_limit: '10' })}
      />
    </>
  );
}

/** The groups of one or two dimensions, the largest first. */
function Ranking({ report, view }: { readonly report: Report; readonly view: View }) {
  const { state, change } = useDashboard();
  if (report.rows.length === 0) return <p class="empty">{texts.ranking.none}</p>;
  const isLimited = report.rows_truncated;
  return (
    <>
      <GroupsTable
        label={texts.ranking.list}
        report={report}
        state={view.state}
        others={['revenue_in_cents', 'purchase_count', 'average_ticket_in_cents']}
        onSelect={(row) => selectionOf(row, report, state.filters, change)}
      />
      {isLimited && report.rows.length < 50 && (
        <button type="button" class="quiet more" onClick={() => change({ group_limit: '50' })}>
          {texts.ranking.show50}
        </button>
      )}
      {report.group_by.includes('coupon') && <p class="hint">{texts.ranking.coupons}</p>}
      {isLimited && report.rows.length >= 50 && <p class="hint">{texts.ranking.largest50}</p>}
    </>
  );
}

/** Selecting a row filters by its values. A day becomes the period. Null if no filter has them. */
function selectionOf(
  row: ReportRow,
  { group_by, timezone }: Report,
  before: Filters,
  change: DashboardState['change'],
): (() => void) | null {
  const filters = group_by.reduce<Filters>((all, name) => selected(all, name, row[name]), before);
  if (group_by.includes('day')) {
    const day = dayAt(Date.parse(String(row.day)), timezone);
    return () => change({ filters, period: 'custom', from: day, to: day });
  }
  return filters === before ? null : () => change({ filters });
}

/** Purchases without a value have a filter too. Empty text has none. */
function selected(filters: Filters, name: string, value: unknown): Filters {
  if (value === null) return withMissing(filters, name);
  const isFilter = filterNamed(name) !== undefined && value !== '';
  return isFilter ? withValues(filters, name, [String(value)]) : filters;
}
