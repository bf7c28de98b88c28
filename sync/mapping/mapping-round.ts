import type { Logger } from 'pino';
import { type Database, withConnection } from '../../src/postgres/connection/pool.ts';
import { type ComparisonBegin, claimComparison } from '../../src/postgres/mapping/as-of.ts';
import { type Comparison, createComparison } from '../../src/postgres/mapping/comparison.ts';
import { isContention } from '../../src/postgres/mapping/contention.ts';
import { describeFailingKey, mapChanges } from '../../src/postgres/mapping/map-changes.ts';
import { type Mapping, readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { inMappingTransaction } from '../../src/postgres/mapping/mapping-transaction.ts';
import { readMissingSources } from '../../src/postgres/mapping/source-tables.ts';
import { restoreTriggers } from '../../src/postgres/mapping/triggers.ts';
import { errorText } from '../../src/process/error-text.ts';

/** Rows of one step, so that changes wait for few tenths of a second. */
const comparedAtOnce = 2_000;
/** A trigger that waits for a writer makes later writers wait. */
const triggerLockTimeoutMs = 2_000;

type Options = {
  /** Whether a step of a comparison follows the changes. */
  readonly isComparing: boolean;
  readonly signal: AbortSignal;
};

/** A comparison of all rows that runs. */
type Running = {
  readonly comparison: Comparison;
  /** What was so at its begin. */
  readonly begin: ComparisonBegin;
  /** Another one is to follow, because rows may have changed without a logged key. */
  isRepeated: boolean;
  readonly progress: ComparisonProgress;
  corrected: number;
};

const isSame = (changes: ComparisonBegin, { structure, asked }: ComparisonBegin): boolean =>
  changes.structure === structure && changes.asked === asked;

/** One transaction after the other that maps changes, and compares rows. */
export function createMappingRound(database: Database, log: Logger) {
  let known: { readonly mapping: Mapping; readonly structure: string } | null = null;
  let running: Running | null = null;
  let isDue = false;
  /** What was compared last while tables lacked triggers: nothing has asked for another one since. */
  let compared: ComparisonBegin | null = null;
  const problems: { rows: string | null; totals: string | null } = { rows: null, totals: null };
  /** What is written. Another process may have changed it: an earlier worker, or `apply`. */
  let written: string | null | undefined;
  let writing: Promise<void> = Promise.resolve();
  let missingTriggers: string | null = null;
  let failingKey: string | null = null;
  /** `status` shows a comparison, which may be that of a worker that was killed. */
  let isShown = true;
  /** Restoring triggers has failed: the next comparison tries again. */
  let isRestoreDue = false;

  const run = async ({ isComparing, signal }: Options): Promise<void> => {
    const isRestoring = isComparing && running === null && (isDue || isRestoreDue);
    if (isRestoring) await restore();
    const before = known;
    try {
      await inMappingTransaction(
        database,
        async (connection) => {
          const mapping = before?.mapping ?? (await readMapping(connection));
          const changes = await mapChanges(connection, mapping);
          const { structure } = changes;
          written = changes.problem;
          // A changed view may have other columns.
          known = before !== null && before.structure !== structure ? null : { mapping, structure };
          isDue = changes.isComparisonDue && !(compared !== null && isSame(changes, compared));
          if (running !== null) running.isRepeated ||= !isSame(changes, running.begin);
          else if (isShown) await connection.query('update mapping_state set comparison = null');
          if (!isComparing || known === null) return;
          // Triggers first: a comparison without them would count as complete.
          if (running === null && isDue && !isRestoring) return;
          if (running === null) failingKey = await describeFailingKey(connection);
          running ??= {
            comparison: createComparison(mapping, { limit: comparedAtOnce }),
            begin: changes,
            isRepeated: false,
            progress: createComparisonProgress(
              changes.at,
              changes.reason ?? (missingTriggers === null ? null : 'missing triggers'),
            ),
            corrected: 0,
          };
          const step = await running.comparison.step(connection);
          if (step === null) return await end(connection, running);
          running.corrected += step.written + step.deleted;
          await running.progress.add(connection, step.rows);
        },
        { signal, nowait: true },
      );
      isShown = running !== null;
    } catch (error) {
      // Otherwise a step may be committed or not.
      if (!isContention(error)) {
        running = null;
        known = null;
      }
      throw error;
    }
    const found = [missingTriggers, failingKey].filter((each) => each !== null);
    await noteProblem('rows', found.join(' ') || null);
  };

  /** Rows may have changed since the begin without a logged key: while triggers are missing, unseen. */
  const end = async (
    connection: Pick<Database, 'query'>,
    { begin, isRepeated, corrected }: Running,
  ): Promise<void> => {
    const isBlind = missingTriggers !== null;
    running = null;
    isDue = isRepeated;
    compared = isBlind && !isRepeated ? begin : null;
    if (corrected > 0)
      log.warn({ rows: corrected }, 'rows differed from their views, and were corrected');
    await claimComparison(connection, begin, { isRepeated, isBlind, corrected });
  };

  /** New partitions, and tables whose triggers were dropped or disabled. */
  const restore = async (): Promise<void> => {
    try {
      const restored = await withConnection(database, (connection) =>
        restoreTriggers(connection, {
          lockTimeoutMs: triggerLockTimeoutMs,
          areOthersDropped: false,
        }),
      );
      if (restored.length > 0) log.info({ tables: restored }, 'created triggers of mapped tables');
      const missing = await readMissingSources(database);
      // A renamed table keeps its triggers, but its new partitions get none.
      missingTriggers =
        missing.length === 0
          ? null
          : `mapping_sources names ${missing.join(', ')}, which does not exist, so only comparisons move the ` +
            'instant of the data. Correct the name, and run `npx crm-data-service mapping apply`.';
      isRestoreDue = missingTriggers !== null;
    } catch (error) {
      isRestoreDue = true;
      missingTriggers =
        `Tables lack triggers of the mapping, so only comparisons move the instant of the data: ` +
        `${errorText(error)}. Run \`npx crm-data-service mapping triggers\` as their owner.`;
    }
  };

  /** Writes a problem of the rows or of the totals for `status`; null without one. */
  const noteProblem = (of: keyof typeof problems, text: string | null): Promise<void> => {
    problems[of] = text;
    // One at a time, so that the last one written is the present one.
    writing = writing.catch(() => {}).then(writeProblem);
    return writing;
  };

  const writeProblem = async (): Promise<void> => {
    const text = [problems.rows, problems.totals].filter((each) => each !== null).join(' ') || null;
    if (text === written) return;
    await database.query(
      `update mapping_state set problem = $1, problem_since = case when $1::text is null then null else now() end
       where problem is distinct from $1`,
      [text],
    );
    written = text;
  };

  return {
    /** Maps what has changed. Rejects with SQLSTATE 55P03 while another process maps. */
    run,
    /** Whether rows are to be compared at once. */
    isComparisonDue: (): boolean => isDue,
    noteProblem,
  };
}

const intervalMs = 1_000;

type ComparisonProgress = ReturnType<typeof createComparisonProgress>;

/** Writes for `status`, once a second, how far a comparison of all rows is, and why it runs; null without a cause. */
function createComparisonProgress(since: Date, reason: string | null) {
  let rows = 0;
  let writtenAt = Number.NEGATIVE_INFINITY;
  return {
    /** Counts rows that are compared. */
    async add(connection: Pick<Database, 'query'>, compared: number): Promise<void> {
      rows += compared;
      if (performance.now() - writtenAt < intervalMs) return;
      await connection.query(
        `update mapping_state set comparison = jsonb_build_object(
           'since', $1::timestamptz, 'reason', $2::text, 'rows', $3::bigint, 'expectedRows', (
             -- An estimate, because counting the rows of a large shop takes a second.
             select nullif(sum(greatest(reltuples, 0)), 0)::bigint from pg_class
             where oid in ('mapped_customer_numbers'::regclass, 'mapped_purchase_numbers'::regclass)))`,
        [since, reason, rows],
      );
      writtenAt = performance.now();
    },
  };
}
