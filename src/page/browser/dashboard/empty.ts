import { byId, element } from '../display/elements.ts';
import type { ViewState } from '../view/view-state.ts';

/** Instead of the chart, if no purchase matches. */
export function noMatch(
  state: ViewState,
  change: (patch: Partial<ViewState>) => void,
): HTMLElement {
  const button = (label: string, patch: Partial<ViewState>) =>
    element('button', { type: 'button', onclick: () => change(patch) }, label);
  return element(
    'div',
    { className: 'empty' },
    element('p', {}, 'No purchase matches. Choose a longer period, or remove a filter.'),
    ...(state.period === 'all' ? [] : [button('Show all time', { period: 'all' })]),
    ...(Object.keys(state.filters).length === 0
      ? []
      : [button('Remove all filters', { filters: {} })]),
  );
}

/** Instead of the chart, if the organization has no purchase at all. */
export function noPurchases(): HTMLElement {
  const name = (byId('organization').textContent ?? '').replaceAll("'", "''");
  const statement = `with new_customer as (
  insert into customers (organization_id, name, email)
  select id, 'Ana Souza', 'ana@example.com' from organizations where name = '${name}'
  returning id, organization_id)
insert into purchases (organization_id, customer_id, purchase_value_in_cents, currency, payment_status)
select organization_id, id, 12990, 'BRL', 'paid' from new_customer;`;
  return element(
    'div',
    { className: 'first-purchase' },
    element('p', {}, element('strong', {}, 'No purchases yet. ')),
    element(
      'p',
      {},
      'Write the first one to Postgres. It is here after ',
      element('em', {}, 'Refresh'),
      ':',
    ),
    element('pre', { tabIndex: 0 }, element('code', {}, statement)),
    element('p', {}, 'The tables are described in ', element('code', {}, 'docs/your-data.md'), '.'),
  );
}
