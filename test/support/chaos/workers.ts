import { setTimeout as sleep } from 'node:timers/promises';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { type Program, runProgram } from '../program.ts';

/** Worker processes, each started again whenever it ends, as a supervisor would. */
export type Workers = {
  readonly count: number;
  /** Null while the process is being started again. */
  pid(place: number): number | null;
  signal(place: number, signal: NodeJS.Signals): void;
  /** What all of them printed last. */
  output(): string;
  stop(): Promise<void>;
};

/** How a worker may end by itself: at its start, where Postgres is away. */
const expectedEnds = /Cannot use the database/;
const outputKept = 6_000;

export function startWorkers(options: {
  readonly count: number;
  readonly environment: Record<string, string>;
  readonly randomFor: (place: number) => RandomSource;
  readonly onUnexpectedEnd: (output: string) => void;
}): Workers {
  const programs: (Program | null)[] = Array.from({ length: options.count }, () => null);
  const past: string[] = [];
  let isStopping = false;
  const keepRunning = async (place: number) => {
    const random = options.randomFor(place);
    while (!isStopping) {
      const path = random.chance(0.5) ? 'sync/main.ts' : 'test/support/chaos/small-chunks.ts';
      const program = runProgram(path, [], options.environment);
      programs[place] = program;
      const code = await program.exited();
      programs[place] = null;
      past.push(`--- worker ${place}, ended with ${code}\n${program.output().slice(-outputKept)}`);
      past.splice(0, past.length - 6);
      const wasKilled = program.child.signalCode === 'SIGKILL';
      if (!wasKilled && !isStopping && !expectedEnds.test(program.output())) {
        options.onUnexpectedEnd(program.output().slice(-outputKept));
      }
      if (!isStopping) await sleep(random.between(0, 1_500));
    }
  };
  const running = programs.map((_, place) => keepRunning(place));
  const signal = (place: number, name: NodeJS.Signals) => {
    programs[place]?.child.kill(name);
  };
  return {
    count: options.count,
    pid: (place) => programs[place]?.child.pid ?? null,
    signal,
    output: () =>
      [
        ...past,
        ...programs.map(
          (program, place) =>
            `--- worker ${place}, running\n${program?.output().slice(-outputKept)}`,
        ),
      ].join('\n'),
    async stop() {
      isStopping = true;
      for (let place = 0; place < options.count; place += 1) signal(place, 'SIGKILL');
      await Promise.all(running);
    },
  };
}
