import { desc, fromArrow, op } from 'arquero';

const response = await fetch(
  'http://127.0.0.1:3000/v1/purchases/report?status=paid&group_by=month,utm_source&limit=1000&format=arrow',
  { headers: { authorization: `Bearer ${process.env.KEY}` } },
);
const sales = fromArrow(await response.arrayBuffer());
sales
  .groupby('utm_source')
  .rollup({ cents: (row) => op.sum(row.revenue_in_cents) })
  .orderby(desc('cents'))
  .print();
