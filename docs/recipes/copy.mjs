// Brings copy.json up to date with the purchases of an organization: `KEY=crm_live_… node copy.mjs`.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

const get = async (path, headers) => {
  const response = await fetch(`http://127.0.0.1:3000/v1/purchases/${path}`, {
    headers: { Authorization: `Bearer ${process.env.KEY}`, ...headers },
  });
  if (!response.ok) throw Object.assign(new Error(), (await response.json()).error);
  return response;
};
let copy = existsSync('copy.json') ? JSON.parse(readFileSync('copy.json', 'utf8')) : {};
try {
  for (let page = {}; page.has_more !== false; copy.cursor = page.next_cursor) {
    const response = await get(
      `changes?limit=1000${copy.cursor ? `&cursor=${copy.cursor}` : ''}`,
    ).catch((error) => {
      if (error.param !== 'cursor') throw error;
      copy = {};
      return get('changes');
    });
    page = await response.json();
    if (copy.cursor) {
      for (const { deleted, ...purchase } of page.data)
        copy.purchases[purchase.id] = deleted ? undefined : purchase;
    } else {
      const asOf = { 'X-Min-Data-As-Of': response.headers.get('X-Data-As-Of') };
      const text = await (await get('export?format=ndjson', asOf)).text();
      const lines = text.split('\n').filter(Boolean);
      const rows = lines.map((line) => JSON.parse(line));
      copy.purchases = Object.fromEntries(rows.map((row) => [row.id, row]));
    }
  }
} finally {
  writeFileSync('copy.part', JSON.stringify(copy));
  renameSync('copy.part', 'copy.json');
}
