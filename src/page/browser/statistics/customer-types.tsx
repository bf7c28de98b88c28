import type { ReportRow } from '../api/responses.ts';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import { Panel } from '../dashboard/panel.tsx';
import { reportTable } from '../display/csv.ts';
import { texts } from '../language/language.ts';
import { isSelected, withValues } from '../view/filters.ts';
import { GroupsTable } from './groups-table.tsx';

const name = 'customer_type';

/** First purchases of customers, and all others. A click on a row filters by it. */
export function CustomerTypesPanel() {
  const { state, change } = useDashboard();
  const select = ({ [name]: type }: ReportRow) =>
    isSelected(state.filters, name)
      ? null
      : () => change({ filters: withValues(state.filters, name, [String(type)]) });
  return (
    <Panel
      name="customer_types"
      id="customer-types"
      title={texts.customers.types}
      table={(report, view) => reportTable(report, view.state)}
    >
      {(report, view) =>
        report.rows.length === 0 ? (
          <p class="empty">{texts.customers.none}</p>
        ) : (
          <GroupsTable
            label={texts.dimensions[name]}
            report={report}
            state={view.state}
            others={['customer_count', 'revenue_in_cents', 'purchase_count']}
            onSelect={select}
          />
        )
      }
    </Panel>
  );
}
