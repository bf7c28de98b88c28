import { type Connection, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { countChanges } from '../capture/change-log.ts';
import { confirmSnapshot } from '../capture/history-token.ts';
import { MissingChangesError, readSince, whyOfOtherHistory } from '../capture/missing-changes.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import { isDataError } from '../describe-failure.ts';
import { leave } from '../organization.ts';
import { TooManyBytesError } from './byte-limits.ts';
import {
  leaveAfter,
  noChanges,
  publishChanges,
  readChanges,
  selectOrganizations,
  type TickContext,
  type TickResult,
} from './tick-steps.ts';

/**
 * Reads the changes of all organizations that follow, in one snapshot, and publishes them at once.
 * Nothing is published after a failure, and the next tick reads the same changes again.
 */
export async function runTick(context: TickContext): Promise<TickResult> {
  const { database, publication } = context;
  const { watermark: since } = publication;
  return readSince(database, since, async (connection) => {
    const included = selectOrganizations(context, await countChanges(connection, since.snapshot));
    return readChanges(connection, included, since.snapshot);
  }).then(
    ({ result, watermark }) => publishChanges(context, result, watermark),
    (error) => tickAfter(context, error),
  );
}

/** Publishes without the organizations whose changes could not be read because of the error. */
async function tickAfter(context: TickContext, error: unknown): Promise<TickResult> {
  if (error instanceof MissingChangesError) {
    await beginHistory(context, error);
    return noChanges;
  }
  if (error instanceof TooManyBytesError) leaveAfter(context, error.organizationId, error);
  else if (!isDataError(error) || !(await isolateUnreadableRows(context))) throw error;
  // Until the watermark moves, a tick would read their changes again once they have joined.
  return runTick(context);
}

/**
 * Continues from `now`, because the change log lacks changes. Organizations that joined in the present
 * history, after the last tick, join again. All others are loaded.
 */
async function beginHistory(
  { database, organizations, publication }: TickContext,
  { now, reason }: MissingChangesError,
): Promise<void> {
  const confirmed = await confirmSnapshot(database, now);
  for (const organization of organizations.values()) {
    if (organization.phase !== 'following') continue;
    // Ticks since may have published changes that the present history lacks.
    const joined = organization.watermark;
    const isOfHistory = joined !== null && whyOfOtherHistory(joined, now) === null;
    const shown = publication.watermarkOf(organization.id);
    leave(organization, isOfHistory ? 'behind' : 'load required', shown, reason);
  }
  await publication.publish(confirmed);
}

/**
 * Reads the changes of each organization alone, after a row made the read of all of them fail. Makes
 * organizations with an unreadable row leave the ticks: its value cannot be copied, or Postgres cannot read
 * its file. False if there are none.
 */
async function isolateUnreadableRows(context: TickContext): Promise<boolean> {
  const { database, organizations, publication } = context;
  const { snapshot } = publication.watermark;
  const read = <Result>(work: (connection: Connection) => Promise<Result>) =>
    withSnapshot(database, async (connection) => {
      await takeSnapshot(connection);
      return work(connection);
    });
  const counts = await read((connection) => countChanges(connection, snapshot));
  let isFound = false;
  for (const id of counts.keys()) {
    if (organizations.get(id)?.phase !== 'following') continue;
    await read((connection) => readChanges(connection, [id], snapshot)).catch((error) => {
      if (!isDataError(error) && !(error instanceof TooManyBytesError)) throw error;
      leaveAfter(context, id, error);
      isFound = true;
    });
  }
  return isFound;
}
