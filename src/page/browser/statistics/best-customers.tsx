import type { BestCustomers } from '../api/customers.ts';
import { Table } from '../components/table.tsx';
import { type Part, useDashboard } from '../dashboard/dashboard-state.ts';
import { NotLoaded, Panel } from '../dashboard/panel.tsx';
import { formatCount, formatMoney } from '../display/format.ts';
import { texts } from '../language/language.ts';

/** The customers with the largest revenue of the period. */
export function BestCustomersPanel() {
  const { parts } = useDashboard();
  return (
    <Panel kind="customers" part={parts.customers} title={texts.customers.best}>
      <div id="best-customers">{parts.customers && <Customers part={parts.customers} />}</div>
    </Panel>
  );
}

function Customers({ part: { value } }: { readonly part: Part<BestCustomers> }) {
  if (value === null) return <NotLoaded />;
  const { report, names } = value;
  if (report.rows.length === 0) return <p class="empty">{texts.customers.none}</p>;
  const columns = [
    { name: texts.customers.customer },
    { name: texts.measures.purchase_count, isNumber: true },
    { name: texts.measures.revenue_in_cents, isNumber: true },
  ];
  return (
    <Table label={texts.measures.customer_count} columns={columns}>
      {report.rows.map(({ customer, purchase_count, revenue_in_cents }) => {
        const id = String(customer);
        return (
          <tr key={id}>
            <th scope="row">
              <a href={`/app/customers/${id}`}>{names.get(id) ?? id}</a>
            </th>
            <td class="number">{formatCount(purchase_count)}</td>
            <td class="number">
              {/* Amounts of several currencies have no sum. */}
              {report.mixed_currencies ? '–' : formatMoney(revenue_in_cents, report.currency)}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
