import { byId, element, moveFocus } from '../display/elements.ts';

/** Says that amounts of several currencies must not be added up. */
export function showMixedCurrencies(isMixed: boolean, rankedBy: string, onRank: () => void): void {
  const container = byId('mixed-currencies');
  const isHidden = !isMixed || rankedBy === 'currency';
  if (isHidden) moveFocus(container, byId('ranking-title'));
  container.hidden = isHidden;
  if (isHidden) return;
  container.replaceChildren(
    element(
      'p',
      {},
      element('strong', {}, 'Several currencies. '),
      'Amounts in the ranking add up different currencies. Rank by currency, or filter.',
    ),
    element('button', { type: 'button', onclick: onRank }, 'Rank by currency'),
  );
}
