import { element } from './elements.ts';

type Column = { readonly name: string; readonly isNumber?: boolean; readonly title?: string };

/** A table that scrolls sideways in a narrow place, also by keyboard. */
export function tableOf(
  label: string,
  columns: readonly Column[],
  rows: readonly HTMLElement[],
): HTMLElement {
  const head = columns.map(({ name, isNumber = false, title = '' }) =>
    element('th', { scope: 'col', className: isNumber ? 'number' : '', title }, name),
  );
  return element(
    'div',
    { className: 'scroll', tabIndex: 0, role: 'region', ariaLabel: label },
    element(
      'table',
      {},
      element('thead', {}, element('tr', {}, ...head)),
      element('tbody', {}, ...rows),
    ),
  );
}

export const numberCell = (text: string): HTMLElement =>
  element('td', { className: 'number' }, text);
