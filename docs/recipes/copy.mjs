// Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… node copy.mjs`.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

async function get(path, more) {
  const headers = { Authorization: `Bearer ${process.env.KEY}`, ...more };
  const response = await fetch(`http://127.0.0.1:3000/v1/purchases/${path}`, { headers });
  if (response.status === 409 && !response.headers.has('Retry-After')) rmSync('copy.json');
  if (!response.ok) throw new Error(await response.text());
  return response;
}
let copy = { purchases: {} };
if (existsSync('copy.json')) copy = JSON.parse(readFileSync('copy.json', 'utf8'));
else {
  const start = await get('changes');
  const shown = { 'X-Min-Data-As-Of': start.headers.get('X-Data-As-Of') };
  const text = await (await get('export?format=ndjson', shown)).text();
  for (const line of text.split('\n').filter(Boolean)) {
    const row = JSON.parse(line);
    copy.purchases[row.id] = row;
  }
  copy.cursor = (await start.json()).next_cursor;
}
for (let page = {}; page.has_more !== false; copy.cursor = page.next_cursor) {
  page = await (await get(`changes?limit=1000&cursor=${copy.cursor}`)).json();
  for (const { deleted, ...row } of page.data) copy.purchases[row.id] = deleted ? undefined : row;
}
writeFileSync('copy.part', JSON.stringify(copy));
renameSync('copy.part', 'copy.json');
