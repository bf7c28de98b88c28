import { get, send } from './api.ts';
import { parseExactly } from './exact-json.ts';
import type { Purchase, TimeSeries } from './responses.ts';

/** The requests for the latest purchases of a selection by which purchases cannot be listed. */
export type LatestRequests = {
  readonly interval: string;
  series(interval: string, since?: string): string;
  /** An export, which is in no order. */
  rows(since?: string): string;
};

/** More rows are too many to sort here for the few that are shown. */
const maxRows = 2_000;
const finer: Readonly<Record<string, string>> = { month: 'day', week: 'hour', day: 'hour' };

/** The latest purchases, newest first: at least `wanted` of them, if there are as many. */
export async function getLatest(
  requests: LatestRequests,
  wanted: number,
  signal?: AbortSignal,
): Promise<readonly Purchase[]> {
  const since = await startOfLatest(requests, wanted, signal);
  const text = await (await send(requests.rows(since), signal)).text();
  const lines = text.split('\n').filter((line) => line !== '');
  const rows = lines.map((line) => parseExactly(line) as Purchase);
  // Instants have the same number of digits.
  return rows.sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
}

/** When the shortest time begins that ends with the selection and has enough purchases. */
async function startOfLatest(
  { interval: first, series }: LatestRequests,
  wanted: number,
  signal?: AbortSignal,
): Promise<string | undefined> {
  let since: string | undefined;
  for (let interval: string | undefined = first; interval !== undefined; ) {
    const { body } = await get<TimeSeries>(series(interval, since), signal);
    const periods = [...(body.series[0]?.periods ?? [])].reverse();
    let count = 0;
    const enough = periods.find(({ purchase_count: added }) => {
      count += Number(added);
      return count >= wanted;
    });
    if (enough === undefined) return since;
    // The first period may begin before the selection does.
    since = enough === periods.at(-1) ? since : enough.starts_at;
    interval = count > maxRows ? finer[interval] : undefined;
  }
  return since;
}
