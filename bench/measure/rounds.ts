export type Rounds = {
  readonly rounds: number;
  /** Rounds before the first that counts. */
  readonly warmUps?: number;
  readonly signal: AbortSignal;
};

/**
 * Runs each task once in each round, and returns their results by round. Load by other programs
 * affects all tasks of a round. Each round starts with another task, because a task changes the
 * caches for the next one.
 */
export async function inRounds<Name extends string, Result>(
  tasks: Readonly<Record<Name, () => Promise<Result>>>,
  { rounds, warmUps = 1, signal }: Rounds,
): Promise<Record<Name, Result[]>> {
  const all = Object.entries<() => Promise<Result>>(tasks).map(([name, run]) => ({
    name,
    run,
    results: [] as Result[],
  }));
  for (let round = -warmUps; round < rounds; round += 1) {
    const first = (round + warmUps) % all.length;
    for (const { run, results } of [...all.slice(first), ...all.slice(0, first)]) {
      signal.throwIfAborted();
      const result = await run();
      if (round >= 0) results.push(result);
    }
  }
  const results = Object.fromEntries(all.map((task) => [task.name, task.results]));
  return results as Record<Name, Result[]>;
}

/** The wall clock time of a task, and the processor time of this process, in milliseconds. */
export type Time = { readonly wall: number; readonly cpu: number };

/** For summaries of times. */
export const wall = (time: Time): number => time.wall;

export async function time(task: () => Promise<unknown>): Promise<Time> {
  const before = process.cpuUsage();
  const startedAt = performance.now();
  await task();
  const milliseconds = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(before);
  return { wall: milliseconds, cpu: (user + system) / 1000 };
}

/** The times of each task by round. */
export async function timeInRounds<Tasks extends Readonly<Record<string, () => Promise<unknown>>>>(
  tasks: Tasks,
  rounds: Rounds,
): Promise<{ [Name in keyof Tasks]: Time[] }> {
  const timed = Object.entries(tasks).map(([name, task]) => [name, () => time(task)]);
  const times = await inRounds<string, Time>(Object.fromEntries(timed), rounds);
  return times as { [Name in keyof Tasks]: Time[] };
}
