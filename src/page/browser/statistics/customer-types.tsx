import type { Report } from '../api/responses.ts';
import { type Part, useDashboard } from '../dashboard/dashboard-state.ts';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { texts } from '../language/language.ts';
import { GroupsTable } from './groups-table.tsx';

/** First purchases of customers, and all others. */
export function CustomerTypesPanel() {
  const { parts } = useDashboard();
  const part = parts.customerTypes;
  return (
    <Panel kind="customer_types" part={part} title={texts.customers.types}>
      <div id="customer-types">{part && <CustomerTypes part={part} />}</div>
    </Panel>
  );
}

function CustomerTypes({ part: { view, value: report } }: { readonly part: Part<Report> }) {
  if (report === null) return <NotLoaded />;
  if (report.rows.length === 0) return <p class="empty">{texts.customers.none}</p>;
  return (
    <GroupsTable
      label={texts.dimensions.customer_type}
      report={report}
      measure={view.state.measure}
      others={['customer_count', 'revenue_in_cents', 'purchase_count']}
      onSelect={() => null}
    />
  );
}
