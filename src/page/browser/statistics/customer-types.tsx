import { Panel } from '../dashboard/panel.tsx';
import { reportTable } from '../display/csv.ts';
import { texts } from '../language/language.ts';
import { GroupsTable } from './groups-table.tsx';

/** First purchases of customers, and all others. */
export const CustomerTypesPanel = () => (
  <Panel
    name="customer_types"
    id="customer-types"
    title={texts.customers.types}
    table={(report, { state }) => reportTable(report, state)}
  >
    {(report, { state }) =>
      report.rows.length === 0 ? (
        <p class="empty">{texts.customers.none}</p>
      ) : (
        <GroupsTable
          label={texts.dimensions.customer_type}
          report={report}
          state={state}
          others={['customer_count', 'revenue_in_cents', 'purchase_count']}
          onSelect={() => null}
        />
      )
    }
  </Panel>
);
