// Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… node copy.mjs`.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

async function get(path, more) {
  const headers = { Authorization: `Bearer ${process.env.KEY}`, ...more };
  const response = await fetch(`http://127.0.0.1:3000/v1/purchases/${path}`, { headers });
  if (!response.ok) throw Object.assign(new Error(), (await response.json()).error);
  return response;
}
let copy = existsSync('copy.json') ? JSON.parse(readFileSync('copy.json', 'utf8')) : {};
try {
  for (let page = {}; page.has_more !== false; copy.cursor = page.next_cursor) {
    const after = copy.cursor ? `&cursor=${copy.cursor}` : '';
    const response = await get(`changes?limit=1000${after}`).catch((error) => {
      if (error.param !== 'cursor') throw error;
      copy = {};
      return get('changes');
    });
    page = await response.json();
    if (!copy.cursor) {
      const shown = { 'X-Min-Data-As-Of': response.headers.get('X-Data-As-Of') };
      const text = await (await get('export?format=ndjson', shown)).text();
      const rows = text
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      copy.purchases = Object.fromEntries(rows.map((row) => [row.id, row]));
    }
    for (const { deleted, ...purchase } of page.data)
      copy.purchases[purchase.id] = deleted ? undefined : purchase;
  }
} finally {
  writeFileSync('copy.part', JSON.stringify(copy));
  renameSync('copy.part', 'copy.json');
}
