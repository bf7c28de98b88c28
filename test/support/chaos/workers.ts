import { setTimeout as sleep } from 'node:timers/promises';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { type Program, runProgram } from '../program.ts';

/** Worker processes. A process that ends is started again, as by systemd. */
export type Workers = {
  readonly count: number;
  /** Null between two processes. */
  pid(index: number): number | null;
  signal(index: number, signal: NodeJS.Signals): void;
  /** The last output of all workers. */
  output(): string;
  stop(): Promise<void>;
};

/** A worker that starts ends if Postgres is not available. */
const expectedErrors = /Cannot use the database/;
const outputKept = 6_000;

export function startWorkers(options: {
  readonly count: number;
  readonly environment: Record<string, string>;
  readonly randomFor: (index: number) => RandomSource;
  readonly onUnexpectedEnd: (output: string) => void;
}): Workers {
  const programs: (Program | null)[] = Array.from({ length: options.count }, () => null);
  const past: string[] = [];
  let isStopping = false;
  const keepRunning = async (index: number) => {
    const random = options.randomFor(index);
    while (!isStopping) {
      const path = random.chance(0.3) ? 'sync/main.ts' : 'test/support/chaos/small-limits.ts';
      const limits = {
        MAX_LOG_RECORDS: String(random.pick([10, 100, 1_000])),
        MAX_PURCHASES_WITHOUT_BASE: String(random.pick([0, 0, 100, 5_000])),
        MAX_TICK_CHANGES: String(random.pick([30, 300, 50_000])),
      };
      const program = runProgram(path, [], { ...options.environment, ...limits });
      programs[index] = program;
      const code = await program.exited();
      programs[index] = null;
      past.push(`--- worker ${index}, ended with ${code}\n${program.output().slice(-outputKept)}`);
      past.splice(0, past.length - 6);
      const wasKilled = program.child.signalCode === 'SIGKILL';
      if (!wasKilled && !isStopping && !expectedErrors.test(program.output())) {
        options.onUnexpectedEnd(program.output().slice(-outputKept));
      }
      if (!isStopping) await sleep(random.between(0, 1_500));
    }
  };
  const running = programs.map((_, index) => keepRunning(index));
  const signal = (index: number, name: NodeJS.Signals) => {
    programs[index]?.child.kill(name);
  };
  return {
    count: options.count,
    pid: (index) => programs[index]?.child.pid ?? null,
    signal,
    output: () =>
      [
        ...past,
        ...programs.map(
          (program, index) =>
            `--- worker ${index}, running\n${program?.output().slice(-outputKept)}`,
        ),
      ].join('\n'),
    async stop() {
      isStopping = true;
      for (let index = 0; index < options.count; index += 1) signal(index, 'SIGKILL');
      await Promise.all(running);
    },
  };
}
