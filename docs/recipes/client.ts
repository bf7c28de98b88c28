import { writeFile } from 'node:fs/promises';
import createClient from 'openapi-fetch';
import type { paths } from './api.ts';

const baseUrl = 'http://127.0.0.1:3000';
const headers = { Authorization: `Bearer ${process.env.KEY}` };
const api = createClient<paths, 'application/json'>({ baseUrl, headers });

const { data, error } = await api.GET('/v1/purchases/report', {
  params: { query: { status: 'paid', group_by: 'utm_campaign', measures: 'revenue_in_cents' } },
});
if (error !== undefined) throw new Error(error.error.message);
for (const row of data.rows) console.log(row.utm_campaign, row.revenue_in_cents);

// A typing error is refused with the name of the parameter.
const refused = await api.GET('/v1/purchases/report', {
  params: { query: { group_by: 'campaign' } },
});
console.log(refused.response.status, refused.error?.error.param);

const file = await fetch(`${baseUrl}/v1/purchases/export?status=paid&format=parquet`, { headers });
if (!file.ok) throw new Error(await file.text());
await writeFile('purchases.parquet', Buffer.from(await file.arrayBuffer()));
