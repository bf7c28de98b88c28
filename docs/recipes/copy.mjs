// Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… node copy.mjs`.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

async function get(path, more) {
  const headers = { Authorization: `Bearer ${process.env.KEY}`, ...more };
  const response = await fetch(`http://127.0.0.1:3000/v1/purchases/${path}`, { headers });
  if (response.ok) return response;
  if (response.status === 409 && !response.headers.has('Retry-After')) rmSync('copy.json');
  throw new Error(await response.text());
}
async function begin() {
  const start = await get('changes');
  const shown = { 'X-Min-Data-As-Of': start.headers.get('X-Data-As-Of') };
  const lines = (await (await get('export?format=ndjson', shown)).text()).split('\n');
  return { ...(await start.json()), data: lines.filter(Boolean).map((line) => JSON.parse(line)) };
}
let page = existsSync('copy.json') ? JSON.parse(readFileSync('copy.json')) : await begin();
const rows = Object.fromEntries(page.data.map((row) => [row.id, row]));
do {
  page = await (await get(`changes?limit=1000&cursor=${page.next_cursor}`)).json();
  for (const { deleted, ...row } of page.data) rows[row.id] = deleted ? undefined : row;
} while (page.has_more);
writeFileSync('copy.part', JSON.stringify({ ...page, data: Object.values(rows).filter(Boolean) }));
renameSync('copy.part', 'copy.json');
