import type { Group, Stats } from '../api/responses.ts';
import { Select } from '../components/controls.tsx';
import { Table } from '../components/table.tsx';
import { type DashboardState, type Loaded, useDashboard } from '../dashboard/dashboard-state.ts';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { dimensionLabel, dimensions, groupLabel } from '../display/dimensions.ts';
import { formatChange, formatCount, formatMoney, formatShare } from '../display/format.ts';
import { filterNamed } from '../view/filters.ts';
import { isMoney, type MeasureName, measureLabels, type ViewState } from '../view/view-state.ts';
import { changeBetween, directionOf, haveOneCurrency } from './change.ts';

export function RankingPanel() {
  const { state, shown, change } = useDashboard();
  const dimension = (
    <label class="inline" for="dimension">
      <span id="dimension-label">by</span>
      <Select
        id="dimension"
        aria-labelledby="ranking-title dimension-label"
        value={state.group_by}
        options={dimensions}
        onSelect={(group_by) => change({ group_by, group_limit: '10' })}
      />
    </label>
  );
  return (
    <Panel kind="ranking" title="Ranking" controls={dimension}>
      <div id="ranking" data-focus-next="#ranking-title">
        {shown !== null && <Ranking shown={shown} />}
      </div>
    </Panel>
  );
}

type GroupMeasure = Exclude<MeasureName, 'customer_count'>;

const columnNames: Readonly<Record<GroupMeasure, string>> = {
  revenue_in_cents: 'Revenue',
  purchase_count: 'Purchases',
  average_ticket_in_cents: 'Avg. ticket',
};

type RankedGroups = {
  readonly stats: Stats;
  /** The groups of the previous period. Null if groups have no change: no day is in both periods. */
  readonly previous: Stats | null;
  /** The measure of columns and changes. Groups have no number of customers. */
  readonly measure: GroupMeasure;
  /** The measure of bars and shares. Averages have no share. */
  readonly summable: GroupMeasure;
};

/** The groups of a dimension, by revenue. */
function Ranking({ shown: { data, view } }: { readonly shown: Loaded }) {
  const { change } = useDashboard();
  if (data.ranking === null) return <NotLoaded />;
  const stats = data.ranking.body;
  if (stats.groups.length === 0) return <p class="empty">There is nothing to rank.</p>;
  const { measure } = view.state;
  const ranked: RankedGroups = {
    stats,
    previous: stats.group_by === 'day' ? null : data.previous,
    measure: measure === 'customer_count' ? 'revenue_in_cents' : measure,
    summable: measure === 'purchase_count' ? measure : 'revenue_in_cents',
  };
  const isLimited = stats.groups_truncated;
  return (
    <>
      <Table label="Groups" columns={columnsOf(ranked)}>
        {stats.groups.map((group) => (
          <Row
            key={JSON.stringify([stats.group_by, group.key])}
            group={group}
            ranked={ranked}
            onSelect={selectionOf(view.state, change)}
          />
        ))}
      </Table>
      {isLimited && stats.groups.length < 50 && (
        <button type="button" class="quiet more" onClick={() => change({ group_limit: '50' })}>
          Show 50
        </button>
      )}
      {isLimited && stats.groups.length >= 50 && (
        <p class="hint">These are the 50 largest groups. Filter to see others.</p>
      )}
    </>
  );
}

/** Selecting a group adds its filter. A day becomes the period. Null for other dimensions. */
function selectionOf(
  { group_by: dimension, filters }: ViewState,
  change: DashboardState['change'],
): ((key: string) => void) | null {
  if (dimension === 'day') return (day) => change({ period: 'custom', from: day, to: day });
  if (filterNamed(dimension) === undefined) return null;
  return (key) => change({ filters: { ...filters, [dimension]: key } });
}

/** The chosen measure first. */
function inOrder(chosen: GroupMeasure): readonly GroupMeasure[] {
  const names = Object.keys(columnNames) as GroupMeasure[];
  return [chosen, ...names.filter((name) => name !== chosen)];
}

function columnsOf({ stats, previous, measure, summable }: RankedGroups) {
  const label = (name: MeasureName) => measureLabels[name].toLowerCase();
  const change = `Change of ${label(measure)} from the previous period`;
  const [first, ...others] = inOrder(measure).map((name) => ({
    name: columnNames[name],
    isNumber: true,
  }));
  return [
    { name: dimensionLabel(stats.group_by ?? '') },
    ...(first ? [first] : []),
    ...(previous === null ? [] : [{ name: 'Change', isNumber: true, title: change }]),
    { name: 'Share', isNumber: true, title: `Share of ${label(summable)}` },
    ...others,
  ];
}

type RowProperties = {
  readonly group: Group;
  readonly ranked: RankedGroups;
  readonly onSelect: ((key: string) => void) | null;
};

function Row({ group, ranked, onSelect }: RowProperties) {
  const { stats, measure, summable } = ranked;
  const currency = stats.group_by === 'currency' ? group.key : stats.currency;
  const [value, total] = [Number(group[summable]), Number(stats[summable])];
  const largest = Math.max(...stats.groups.map((one) => Number(one[summable])));
  // Amounts of different currencies have no common scale.
  const hasScale = !stats.mixed_currencies || !isMoney(summable);
  const width = largest > 0 ? Math.max(0, (100 * value) / largest) : 0;
  const share = hasScale && total > 0 ? formatShare(value / total) : '–';
  const textOf = (name: GroupMeasure) =>
    isMoney(name) ? formatMoney(group[name], currency) : formatCount(group[name]);
  const others = inOrder(measure)
    .slice(1)
    .map((name) => [columnNames[name], textOf(name)] as const);
  return (
    <tr>
      <th scope="row">
        <Name
          label={groupLabel(stats.group_by ?? '', group.key)}
          group={group}
          onSelect={onSelect}
        />
        {hasScale && <span class="bar" style={{ width: `${width}%` }} />}
      </th>
      <td class="number">{textOf(measure)}</td>
      {ranked.previous !== null && <Change change={changeOf(group, ranked, ranked.previous)} />}
      {/* Narrow windows show these below the others, with the names of the columns. */}
      {[['Share', share] as const, ...others].map(([name, text]) => (
        <td key={name} class="number" data-name={name}>
          {text}
        </td>
      ))}
    </tr>
  );
}

function Change({ change }: { readonly change: number | string }) {
  if (typeof change === 'string') return <td class="number">{change}</td>;
  return <td class={`number ${directionOf(change)}`}>{formatChange(change)}</td>;
}

/** Text if there is nothing to compare with. */
function changeOf(group: Group, { stats, measure }: RankedGroups, previous: Stats) {
  const isComparable =
    !isMoney(measure) || stats.group_by === 'currency' || haveOneCurrency(stats, previous);
  if (!isComparable) return '–';
  const before = previous.groups.find(({ key }) => key === group.key);
  // A group beyond the last one may have had purchases.
  if (before === undefined) return previous.groups_truncated ? '–' : 'new';
  return changeBetween(BigInt(group[measure]), BigInt(before[measure])) ?? '–';
}

type NameProperties = Omit<RowProperties, 'ranked'> & { readonly label: string };

function Name({ group: { key }, label, onSelect }: NameProperties) {
  // The API has no filter for a missing or empty value.
  if (key === null || key === '') return <span class="missing">{label}</span>;
  if (onSelect === null) return <span>{label}</span>;
  return (
    <button type="button" class="link" title={`Show only ${label}`} onClick={() => onSelect(key)}>
      {label}
    </button>
  );
}
