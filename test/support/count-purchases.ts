/** Prints the sum of the purchases of organizations, whose files stay open: a data folder, and how many. */
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createTestDuckDBEngine } from './engines.ts';

const [dataDirectory = '', organizations] = process.argv.slice(2);
const engine = await createTestDuckDBEngine(dataDirectory);
let sum = 0n;
for (let id = 1n; id <= Number(organizations); id += 1n) {
  const { result } = await readPurchaseStats(engine, id, { filters: {}, groupLimit: 1 });
  sum += result.purchaseCount;
}
console.log(`${sum} purchases`);
await engine.close();
