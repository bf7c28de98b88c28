import { readTicks } from '../../../src/purchase-store/published-tick.ts';
import type { Scope } from '../../runner/scope.ts';
import type { PreparedShops } from '../../setup/prepared-shops.ts';

const pollIntervalMs = 20;

/** Counts the ticks with changes from now on until the scope ends: each has another token. */
export function countTicks(
  scope: Scope,
  { dataDirectory }: Pick<PreparedShops, 'dataDirectory'>,
): () => number {
  const readToken = () => readTicks(dataDirectory)[0]?.token;
  let token = readToken();
  let count = 0;
  const polling = setInterval(() => {
    const newest = readToken();
    if (newest !== token) count += 1;
    token = newest;
  }, pollIntervalMs);
  scope.afterwards(async () => clearInterval(polling));
  return () => count;
}
