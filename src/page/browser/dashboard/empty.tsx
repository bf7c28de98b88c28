import { Code } from '../components/code.tsx';
import { Marked } from '../components/marked.tsx';
import { texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';

/** Instead of the chart, if no purchase matches. */
export function NoMatch() {
  const { state, change } = useDashboard();
  const { status, ...others } = state.filters;
  return (
    <div class="empty">
      <p>{texts.empty.noMatch}</p>
      {state.period !== 'all' && (
        <button type="button" onClick={() => change({ period: 'all' })}>
          {texts.empty.allTime}
        </button>
      )}
      {Object.keys(others).length > 0 && (
        <button type="button" onClick={() => change({ filters: status ? { status } : {} })}>
          {texts.empty.removeFilters}
        </button>
      )}
      {status !== undefined && (
        <button type="button" onClick={() => change({ filters: others })}>
          {texts.empty.allStatuses}
        </button>
      )}
    </div>
  );
}

/** Instead of the chart, if the organization has no purchase at all. */
export function NoPurchases() {
  const name = useDashboard().organization.replaceAll("'", "''");
  const statement = `with new_customer as (
  insert into customers (organization_id, name, email)
  select id, 'Ana Souza', 'ana@example.com' from organizations where name = '${name}'
  returning id, organization_id)
insert into purchases (organization_id, customer_id, purchase_value_in_cents, currency, payment_status)
select organization_id, id, 12990, 'BRL', 'paid' from new_customer;`;
  return (
    <div class="first-purchase">
      <strong>{texts.empty.noPurchases}</strong>
      <p>{texts.empty.writeFirst}</p>
      <Code text={statement} />
      <p>
        <Marked text={texts.empty.tables} />
      </p>
    </div>
  );
}
