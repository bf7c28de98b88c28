import sql, { raw } from 'sql-template-tag';
import { type Database, firstRow } from '../connection/pool.ts';

/** The events of a window, its end (milliseconds since 1970) and the time until then. */
export type Usage = { readonly events: number; readonly endsAt: number; readonly restMs: number };

/** Clocks of the API's machines differ, so the one of Postgres counts. */
const nowMs = '(extract(epoch from now())::double precision * 1000)';

/**
 * A statement that counts one event for each key of `keys`, in windows of $2 milliseconds. A row lock
 * makes concurrent requests of all processes count one after the other. The end of a window may be
 * later than that of a request that began before and waited; beyond that, the clock has gone back.
 */
export const countEvents = (keys: string): string => `
  insert into rate_limits as before (key, points, expire)
  select key, 1, ${nowMs} + $2::double precision from (${keys}) as event (key)
  on conflict (key) do update set
    points = case when ${isOpen} then before.points + 1 else 1 end,
    expire = case when ${isOpen} then before.expire else excluded.expire end
  returning points as events, expire as "endsAt",
    least(expire - ${nowMs}, $2::double precision) as "restMs"`;

const maxWaitMs = 10_000;
const isOpen = `before.expire > excluded.expire - $2::double precision
      and before.expire <= excluded.expire + ${maxWaitMs}`;

export async function countEvent(
  database: Database,
  key: string,
  windowMs: number,
): Promise<Usage> {
  const { rows } = await database.query<Usage>({
    name: 'count-event',
    text: countEvents('select $1::text'),
    values: [key, windowMs],
  });
  return rows[0] as Usage;
}

/** Deletes the counts of windows that ended more than an hour ago. */
export const deleteOldCounts = (database: Database): Promise<unknown> =>
  firstRow(database, sql`delete from rate_limits where expire < ${raw(nowMs)} - 3600000`);
