import type { Group, Stats } from '../api/responses.ts';
import { dimensionLabel, groupLabel } from '../display/dimensions.ts';
import { byId, element, moveFocus } from '../display/elements.ts';
import { formatChange, formatCount, formatMoney, formatShare } from '../display/format.ts';
import { numberCell, tableOf } from '../display/table.ts';
import { isMoney, type MeasureName } from '../view/view-state.ts';
import { changeBetween, directionOf, haveOneCurrency } from './change.ts';
import { measureLabels } from './totals.ts';

type RankingView = {
  readonly stats: Stats;
  /** The groups of the previous period. */
  readonly previous: Stats | null;
  readonly measure: MeasureName;
  /** Null if groups of this dimension cannot be selected. */
  readonly onSelect: ((key: string) => void) | null;
  onMore(): void;
};

type GroupMeasure = Exclude<MeasureName, 'customer_count'>;

/** The measure of bars, shares and changes. Groups have no number of customers, and averages no share. */
const measureOf = ({ measure }: RankingView): GroupMeasure =>
  measure === 'customer_count' ? 'revenue_in_cents' : measure;
const summable = (measure: GroupMeasure) =>
  measure === 'average_ticket_in_cents' ? 'revenue_in_cents' : measure;

const columnNames: Readonly<Record<GroupMeasure, string>> = {
  revenue_in_cents: 'Revenue',
  purchase_count: 'Purchases',
  average_ticket_in_cents: 'Avg. ticket',
};

/** The chosen measure first. */
function inOrder(view: RankingView): GroupMeasure[] {
  const chosen = measureOf(view);
  const others = (Object.keys(columnNames) as GroupMeasure[]).filter((name) => name !== chosen);
  return [chosen, ...others];
}

/** The groups of a dimension, by revenue. */
export function renderRanking(container: HTMLElement, view: RankingView): void {
  const { stats, onMore } = view;
  // The group that had the focus may be gone.
  moveFocus(container, byId('ranking-title'));
  if (stats.groups.length === 0) {
    container.replaceChildren(element('p', { className: 'empty' }, 'There is nothing to rank.'));
    return;
  }
  const measure = summable(measureOf(view));
  const largest = Math.max(...stats.groups.map((group) => Number(group[measure])));
  const change = `Change of ${measureLabels[measureOf(view)].toLowerCase()} from the previous period`;
  const [first = '', ...others] = inOrder(view).map((name) => columnNames[name]);
  const columns = [
    { name: first },
    ...(hasChange(view) ? [{ name: 'Change', title: change }] : []),
    { name: 'Share', title: `Share of ${measureLabels[measure].toLowerCase()}` },
    ...others.map((name) => ({ name })),
  ];
  container.replaceChildren(
    tableOf(
      'Groups',
      [
        { name: dimensionLabel(stats.group_by ?? '') },
        ...columns.map((column) => ({ ...column, isNumber: true })),
      ],
      stats.groups.map((group) => rowOf(group, largest, view)),
    ),
  );
  if (!stats.groups_truncated) return;
  const isMost = stats.groups.length >= 50;
  container.append(
    isMost
      ? element(
          'p',
          { className: 'hint' },
          'These are the 50 largest groups. Filter to see others.',
        )
      : element('button', { type: 'button', className: 'quiet more', onclick: onMore }, 'Show 50'),
  );
}

/** No day is in both periods. */
const hasChange = ({ stats, previous }: RankingView): boolean =>
  previous !== null && stats.group_by !== 'day';

function rowOf(group: Group, largest: number, view: RankingView): HTMLElement {
  const { stats, onSelect } = view;
  const dimension = stats.group_by ?? '';
  const currency = dimension === 'currency' ? group.key : stats.currency;
  const measure = summable(measureOf(view));
  const [value, total] = [Number(group[measure]), Number(stats[measure])];
  // Amounts of different currencies have no common scale.
  const hasScale = !stats.mixed_currencies || !isMoney(measure);
  const bar = element('span', { className: 'bar' });
  bar.style.setProperty('width', `${largest > 0 ? Math.max(0, (100 * value) / largest) : 0}%`);
  bar.hidden = !hasScale;
  const [first = '', ...others] = inOrder(view).map((name, index) => {
    const text = isMoney(name) ? formatMoney(group[name], currency) : formatCount(group[name]);
    return index === 0 ? numberCell(text) : detailCell(columnNames[name], text);
  });
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, nameOf(group, dimension, onSelect), bar),
    first,
    ...(hasChange(view) ? [changeCell(group, view)] : []),
    detailCell('Share', hasScale && total > 0 ? formatShare(value / total) : '–'),
    ...others,
  );
}

/** A cell that narrow windows show below the others, with the name of its column. */
function detailCell(name: string, text: string): HTMLElement {
  const cell = numberCell(text);
  cell.dataset.name = name;
  return cell;
}

function changeCell({ key, ...group }: Group, view: RankingView): HTMLElement {
  const { stats, previous } = view;
  const measure = measureOf(view);
  if (previous === null) return numberCell('–');
  const isComparable =
    !isMoney(measure) || stats.group_by === 'currency' || haveOneCurrency(stats, previous);
  if (!isComparable) return numberCell('–');
  const before = previous.groups.find((one) => one.key === key);
  // A group beyond the last one may have had purchases.
  if (before === undefined) return numberCell(previous.groups_truncated ? '–' : 'new');
  const change = changeBetween(BigInt(group[measure]), BigInt(before[measure]));
  if (change === null) return numberCell('–');
  const cell = numberCell(formatChange(change));
  cell.classList.add('change', directionOf(change) || 'same');
  return cell;
}

function nameOf({ key }: Group, dimension: string, onSelect: RankingView['onSelect']): HTMLElement {
  const label = groupLabel(dimension, key);
  // The API has no filter for a missing or empty value.
  if (key === null || key === '') return element('span', { className: 'missing' }, label);
  if (onSelect === null) return element('span', {}, label);
  const button = element('button', { type: 'button', className: 'link' }, label);
  button.title = `Show only ${label}`;
  button.addEventListener('click', () => onSelect(key));
  return button;
}
