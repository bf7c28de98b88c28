import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { mappingState } from '../../src/postgres/connection/claimed-instant.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { isContention } from '../../src/postgres/mapping/contention.ts';
import { failureText } from '../../src/postgres/mapping/failure-text.ts';
import { queuedEntries } from '../../src/postgres/mapping/queue.ts';
import { backoffMs, every } from '../../src/process/backoff.ts';
import { describeFailure, type Failure } from '../describe-failure.ts';
import { createMappingRound } from './mapping-round.ts';
import { createTotals } from './totals.ts';

type Mapper = {
  /** Maps all changes of the shop's tables, and compares all rows if that is due. */
  once(): Promise<void>;
  /** Maps changes until the signal is aborted, and compares rows continuously at a low share of the time. */
  run(signal: AbortSignal): Promise<void>;
};

type MapperOptions = {
  readonly database: Database;
  readonly pollIntervalMs: number;
  readonly log: Logger;
};

/** Between two looks whether the database has a mapping. */
const unmappedIntervalMs = 1_000;
/** Without changes, later instants are claimed this often. */
const claimIntervalMs = 500;
const totalsIntervalMs = 1_000;
/** The share of the time that comparisons take which nothing has asked for. */
const comparisonShare = 0.05;

/**
 * Maps the shop's own tables to those of the service (docs/your-data.md). Workers of other data folders
 * and shards may do the same: one transaction maps at a time.
 */
export function createMapper({ database, pollIntervalMs, log }: MapperOptions): Mapper {
  const round = createMappingRound(database, log);
  const totals = createTotals(database, log);
  const isClaimDue = every(claimIntervalMs);
  let nextComparisonAt = 0;

  /** Returns how long to wait for the next one. */
  const follow = async (state: State, signal: AbortSignal): Promise<number> => {
    const isComparing = round.isComparisonDue() || performance.now() >= nextComparisonAt;
    if (!state.isChanged && !isComparing && !isClaimDue()) return pollIntervalMs;
    const startedAt = performance.now();
    await round.run({ isComparing, signal });
    if (!isComparing) return pollIntervalMs;
    if (round.isComparisonDue()) return 0;
    nextComparisonAt = startedAt + (performance.now() - startedAt) / comparisonShare;
    return pollIntervalMs;
  };

  /** Repeats the work while the database has a mapping. Without one, the role needs no other rights. */
  const repeat = async (
    signal: AbortSignal,
    of: 'rows' | 'totals',
    work: (state: State, signal: AbortSignal) => Promise<number>,
  ): Promise<void> => {
    let failures = 0;
    let known = '';
    while (!signal.aborted) {
      let pauseMs = pollIntervalMs;
      try {
        const state = await readState(database);
        pauseMs = state.isMapped ? await work(state, signal) : unmappedIntervalMs;
        failures = 0;
        known = '';
      } catch (error) {
        if (signal.aborted) return;
        if (!isContention(error)) {
          failures += 1;
          pauseMs = backoffMs(failures, 5_000);
          const { message, advice } = describeMappingFailure(error);
          if (message !== known) log.error({ advice }, message);
          known = message;
          await round.noteProblem(of, `${message} ${advice}`).catch(() => {});
        }
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  };

  return {
    async once() {
      const { signal } = new AbortController();
      if (!(await readState(database)).isMapped) return;
      do {
        try {
          await round.run({ isComparing: round.isComparisonDue(), signal });
        } catch (error) {
          if (!isContention(error)) throw error;
          await sleep(pollIntervalMs);
        }
      } while (round.isComparisonDue() || (await readState(database)).isChanged);
      await totals.refreshDue();
    },
    async run(signal) {
      await Promise.all([
        repeat(signal, 'rows', follow),
        repeat(signal, 'totals', async () => {
          await totals.refreshDue();
          await round.noteProblem('totals', null);
          return totalsIntervalMs;
        }),
      ]);
    },
  };
}

type State = { readonly isMapped: boolean; readonly isChanged: boolean };

async function readState(database: Database): Promise<State> {
  const { rows } = await database.query<State>({
    name: 'read-mapping-state',
    text: `select exists (select from ${mappingState} as state where copied_at is not null) as "isMapped",
      exists (select from ${queuedEntries} as queued) as "isChanged"`,
  });
  return rows[0] ?? { isMapped: false, isChanged: false };
}

export function describeMappingFailure(error: unknown): Failure {
  if (error instanceof pg.DatabaseError && /^(42|0A|2[123]|P0)/.test(error.code ?? '')) {
    return {
      message: `The shop's tables cannot be mapped: ${failureText(error)}.`,
      advice:
        'Run `npx crm-data-service mapping check`, and then `npx crm-data-service mapping apply`.',
    };
  }
  return describeFailure(error);
}
