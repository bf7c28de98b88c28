import { inRounds, timed, timedWarm, wall } from './rounds.ts';
import { ratioOf, type Summary, summaryOf } from './statistics.ts';

type Task = () => Promise<unknown>;

/** Milliseconds of the service and of another one, and the ratio other / service of the same round. */
export type Pair = { readonly service: Summary; readonly other: Summary; readonly ratio: Summary };

export type Comparison = {
  /** Runs one after the other. */
  readonly warm: Pair;
  /** Each once in each round, so that each run follows one of another task. */
  readonly interleaved: Pair;
  /** Whether the variant with parallel workers was faster when warm, so that the figures are its own. */
  readonly parallelWorkers: boolean;
};

/**
 * Compares the service with the faster variant of another one: without or with parallel workers of
 * Postgres. `slow` runs once in each interleaved round, and has no warm runs.
 */
export async function compareWithVariants(
  service: Task,
  { serial, parallel }: Readonly<Record<'serial' | 'parallel', Task>>,
  { rounds, signal, slow }: { rounds: number; signal: AbortSignal; slow?: Task },
): Promise<Comparison & { readonly slow: Pair | null }> {
  const warmTasks = {
    service: timedWarm(service),
    serial: timedWarm(serial),
    parallel: timedWarm(parallel),
  };
  const warm = await inRounds(warmTasks, { rounds, signal });
  const parallelWorkers =
    summaryOf(warm.parallel, wall).median < summaryOf(warm.serial, wall).median;
  const tasks = {
    service: timed(service),
    other: timed(parallelWorkers ? parallel : serial),
    ...(slow && { slow: timed(slow) }),
  };
  const interleaved = await inRounds(tasks, { rounds, signal });
  const pairOf = (own: typeof warm.service, other: typeof warm.service): Pair => ({
    service: summaryOf(own, wall),
    other: summaryOf(other, wall),
    ratio: ratioOf(other, own, wall),
  });
  return {
    warm: pairOf(warm.service, parallelWorkers ? warm.parallel : warm.serial),
    interleaved: pairOf(interleaved.service, interleaved.other),
    slow: interleaved.slow === undefined ? null : pairOf(interleaved.service, interleaved.slow),
    parallelWorkers,
  };
}
