import { nameOf } from '../api/customers.ts';
import type { Report, ReportRow } from '../api/responses.ts';
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
    {(report, view) => <Customers report={report} view={view} />}
  </Panel>
);

const tableOf = (report: Report, { state }: View) =>
  reportTable(report, state, (_, row) => customerOf(row).name);

/** The id and the name of the customer of a row. */
function customerOf({ customer, ...row }: ReportRow) {
  const { customer_name: name, customer_email: email, customer_phone: phone } = row;
  const id = String(customer);
  return { id, name: nameOf({ id, name: name ?? '', email: email ?? '', phone: phone ?? '' }) };
}

type CustomersProperties = { readonly report: Report; readonly view: View };

function Customers({ report, view: { state } }: CustomersProperties) {
  if (report.rows.length === 0) return <p class="empty">{texts.customers.none}</p>;
  const columns = [
    { name: texts.dimensions.customer },
    { name: texts.measures.purchase_count, isNumber: true },
    { name: measureLabel('revenue_in_cents', state), isNumber: true },
  ];
  return (
    <Table label={texts.measures.customer_count} columns={columns}>
      {report.rows.map((row) => {
        const { id, name } = customerOf(row);
        return (
          <tr key={id}>
            <th scope="row">
              <a href={`/app/customers/${id}`}>
                <Label text={name} />
              </a>
            </th>
            <td class="number">{formatCount(row.purchase_count)}</td>
            <td class="number">
              {/* Amounts of several currencies have no sum. */}
              {report.mixed_currencies ? '–' : formatMoney(row.revenue_in_cents, report.currency)}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
