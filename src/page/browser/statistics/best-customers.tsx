import type { BestCustomers } from '../api/customers.ts';
import { Label } from '../components/label.tsx';
import { Table } from '../components/table.tsx';
import type { View } from '../dashboard/load.ts';
import { Panel } from '../dashboard/panel.tsx';
import { reportTable } from '../display/csv.ts';
import { formatCount, formatMoney } from '../display/format.ts';
import { measureLabel } from '../display/measures.ts';
import { texts } from '../language/language.ts';

/** The customers with the largest revenue of the period. */
export const BestCustomersPanel = () => (
  <Panel name="customers" id="best-customers" title={texts.customers.best} table={tableOf}>
    {(value, view) => <Customers value={value} view={view} />}
  </Panel>
);

const tableOf = ({ report, names }: BestCustomers, { state }: View) =>
  reportTable(report, state, (_, id) => names.get(String(id)) ?? String(id));

type CustomersProperties = { readonly value: BestCustomers; readonly view: View };

function Customers({ value: { report, names }, view: { state } }: CustomersProperties) {
  if (report.rows.length === 0) return <p class="empty">{texts.customers.none}</p>;
  const columns = [
    { name: texts.dimensions.customer },
    { name: texts.measures.purchase_count, isNumber: true },
    { name: measureLabel('revenue_in_cents', state), isNumber: true },
  ];
  return (
    <Table label={texts.measures.customer_count} columns={columns}>
      {report.rows.map(({ customer, purchase_count, revenue_in_cents }) => {
        const id = String(customer);
        return (
          <tr key={id}>
            <th scope="row">
              <a href={`/app/customers/${id}`}>
                <Label text={names.get(id) ?? id} />
              </a>
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
