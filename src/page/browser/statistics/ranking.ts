import type { Group, Stats } from '../api/responses.ts';
import { dimensionLabel, groupLabel } from '../display/dimensions.ts';
import { byId, element, moveFocus } from '../display/elements.ts';
import { formatCount, formatMoney, formatShare } from '../display/format.ts';
import { numberCell, tableOf } from '../display/table.ts';

type RankingView = {
  readonly stats: Stats;
  /** Null if groups of this dimension cannot be selected. */
  readonly onSelect: ((key: string) => void) | null;
  onMore(): void;
};

const numbers = ['Revenue', 'Share', 'Purchases', 'Avg. ticket'];

/** The groups of a dimension, by revenue. */
export function renderRanking(container: HTMLElement, view: RankingView): void {
  const { stats, onMore } = view;
  // The group that had the focus may be gone.
  moveFocus(container, byId('ranking-title'));
  if (stats.groups.length === 0) {
    container.replaceChildren(element('p', { className: 'empty' }, 'There is nothing to rank.'));
    return;
  }
  const largest = Math.max(...stats.groups.map(({ revenue_in_cents: cents }) => Number(cents)));
  const columns = numbers.map((name) => ({ name, isNumber: true }));
  container.replaceChildren(
    tableOf(
      'Groups',
      [{ name: dimensionLabel(stats.group_by ?? '') }, ...columns],
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

function rowOf(group: Group, largest: number, { stats, onSelect }: RankingView): HTMLElement {
  const dimension = stats.group_by ?? '';
  const currency = dimension === 'currency' ? group.key : stats.currency;
  const revenue = Number(group.revenue_in_cents);
  const total = Number(stats.revenue_in_cents);
  const bar = element('span', { className: 'bar' });
  bar.style.setProperty('width', `${largest > 0 ? Math.max(0, (100 * revenue) / largest) : 0}%`);
  // Amounts of different currencies have no common scale.
  bar.hidden = stats.mixed_currencies;
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, nameOf(group, dimension, onSelect), bar),
    numberCell(formatMoney(group.revenue_in_cents, currency)),
    numberCell(stats.mixed_currencies || total <= 0 ? '–' : formatShare(revenue / total)),
    numberCell(formatCount(group.purchase_count)),
    numberCell(formatMoney(group.average_ticket_in_cents, currency)),
  );
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
