export type Rounds = {
  readonly rounds: number;
  /** Rounds before the first that counts. */
  readonly warmUps?: number;
  readonly signal: AbortSignal;
};

/** Tasks by name or by index. */
type Tasks = Readonly<Record<string, () => Promise<unknown>>> | readonly (() => Promise<unknown>)[];
/** The results of each task by round. */
type Results<Given> = {
  -readonly [Name in keyof Given]: NonNullable<Given[Name]> extends () => Promise<infer Result>
    ? Result[]
    : never;
};

/**
 * Runs each task once in each round. Load by other programs affects all tasks of a round. Each
 * round starts with another task, because a task changes the caches for the next one.
 */
export async function inRounds<Given extends Tasks>(
  tasks: Given,
  { rounds, warmUps = 1, signal }: Rounds,
): Promise<Results<Given>> {
  const all = Object.entries<() => Promise<unknown>>(tasks as Record<string, never>);
  const results = new Map(all.map(([name]) => [name, [] as unknown[]]));
  for (let round = -warmUps; round < rounds; round += 1) {
    const first = (round + warmUps) % all.length;
    for (const [name, run] of [...all.slice(first), ...all.slice(0, first)]) {
      signal.throwIfAborted();
      const result = await run();
      if (round >= 0) results.get(name)?.push(result);
    }
  }
  const ofTasks = Array.isArray(tasks) ? [...results.values()] : Object.fromEntries(results);
  return ofTasks as Results<Given>;
}

/** The wall clock time of a task, and the processor time of this process, in milliseconds. */
export type Time = { readonly wall: number; readonly cpu: number };

/** The wall clock time, for summaries. */
export const wall = (time: Time): number => time.wall;

export async function time(task: () => Promise<unknown>): Promise<Time> {
  const before = process.cpuUsage();
  const startedAt = performance.now();
  await task();
  const milliseconds = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(before);
  return { wall: milliseconds, cpu: (user + system) / 1000 };
}

/** A task that returns its time. */
export const timed = (task: () => Promise<unknown>) => () => time(task);

/** Counted runs of a warm task. */
const warmRuns = 3;

/**
 * A task that returns the median time of runs one after the other. The run before them does not
 * count: it follows another task, so threads and caches of the processor are cold.
 */
export const timedWarm = (task: () => Promise<unknown>) => async () => {
  const times: Time[] = [];
  await task();
  for (let run = 0; run < warmRuns; run += 1) times.push(await time(task));
  return times.sort((a, b) => a.wall - b.wall)[Math.floor(warmRuns / 2)] as Time;
};
