import { type Connection, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { countChanges } from '../capture/change-log.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import { isDataError } from '../describe-failure.ts';
import { TooManyBytesError } from './byte-limits.ts';
import { leaveAfter, readChanges, type TickContext } from './tick-steps.ts';

/**
 * Reads the changes of each organization alone, after a row made the read of all of them fail. Makes
 * organizations with an unreadable row leave the ticks: its value cannot be copied, or Postgres cannot read
 * its file. False if there are none.
 */
export async function isolateUnreadableRows(context: TickContext): Promise<boolean> {
  const { database, organizations, publication } = context;
  const { snapshot } = publication.watermark;
  const read = <Result>(work: (source: Connection) => Promise<Result>) =>
    withSnapshot(database, async (source) => {
      await takeSnapshot(source);
      return work(source);
    });
  const counts = await read((source) => countChanges(source, snapshot));
  let isFound = false;
  for (const id of counts.keys()) {
    if (organizations.get(id)?.phase !== 'following') continue;
    await read((source) => readChanges(source, [id], snapshot)).catch((error) => {
      if (!isDataError(error) && !(error instanceof TooManyBytesError)) throw error;
      leaveAfter(context, id, error);
      isFound = true;
    });
  }
  return isFound;
}
