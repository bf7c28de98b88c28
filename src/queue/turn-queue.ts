import PQueue, { type Queue, type QueueAddOptions } from 'p-queue';

type Run = () => Promise<unknown>;

/** `turn` names who takes the turn. */
type TurnOptions = QueueAddOptions & { readonly turn: string };

/** A queue class of p-queue: those who have work in the queue take turns. */
class Turns implements Queue<Run, TurnOptions> {
  /** In the order of turns, by the id of each run. Nothing is empty. */
  readonly #turns = new Map<string, Map<string, Run>>();

  get size(): number {
    return [...this.#turns.values()].reduce((sum, { size }) => sum + size, 0);
  }

  enqueue(run: Run, { turn = '', id = '' }: Partial<TurnOptions> = {}): void {
    const runs = this.#turns.get(turn) ?? new Map<string, Run>();
    this.#turns.set(turn, runs.set(id, run));
  }

  dequeue(): Run | undefined {
    for (const [turn, runs] of this.#turns) {
      this.#turns.delete(turn);
      for (const [id, run] of runs) {
        runs.delete(id);
        if (runs.size > 0) this.#turns.set(turn, runs);
        return run;
      }
    }
    return undefined;
  }

  remove(id: string): void {
    for (const [turn, runs] of this.#turns) {
      if (runs.delete(id) && runs.size === 0) this.#turns.delete(turn);
    }
  }

  filter({ turn = '' }: Readonly<Partial<TurnOptions>>): Run[] {
    return [...(this.#turns.get(turn)?.values() ?? [])];
  }

  /** Turns are the only order. */
  setPriority(): void {}
}

/** A queue in which those who have work in it take turns. */
export type TurnQueue = PQueue<Turns, TurnOptions>;

export const createTurnQueue = (concurrency: number): TurnQueue =>
  new PQueue({ concurrency, queueClass: Turns });
