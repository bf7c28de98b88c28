import type { Queue, QueueAddOptions } from 'p-queue';
import type { Askers } from '../../domain/askers.ts';

/** A question from when it asks for a place until it has given it back. */
export type Turn = {
  readonly askers: Askers;
  /** By whose turn it runs; undefined while it waits. */
  taker?: string;
};

export type TurnLimits = {
  /** Questions of one asker that run at the same time. */
  readonly runningPerAsker: number;
  /** Questions that wait, of everybody. */
  readonly waiting: number;
  readonly waitingPerAsker: number;
};

type Waiting<Work> = {
  readonly id: string;
  readonly turn: Turn;
  readonly work: Work;
  readonly arrivedAt: number;
};

/**
 * Who goes next. A free place is for the asker who has the fewest; among equals,
 * for the one who came, or was last served, longest ago. So those who wait take
 * turns, however much each of them asks, and one who comes anew waits for at most
 * one question of each other. An asker's own questions go in the order they came.
 */
export class Turns<Work> {
  readonly #limits: TurnLimits;
  readonly #waiting: Waiting<Work>[] = [];
  readonly #running = new Map<string, number>();
  /** When each asker was last given a place, or gave one back; oldest first. */
  readonly #servedAt = new Map<string, number>();
  #clock = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Whether one of these askers may have another place, if one is free. */
  mayRun(askers: Askers): boolean {
    return askers.present.some((asker) => this.#placesOf(asker) < this.#limits.runningPerAsker);
  }

  /** Whether as many questions wait as may, of everybody or of each of these askers. */
  isFull(askers: Askers): boolean {
    const waitingOf = (asker: string) =>
      this.#waiting.filter(({ turn }) => turn.askers.present.includes(asker)).length;
    return (
      this.#waiting.length >= this.#limits.waiting ||
      askers.present.every((asker) => waitingOf(asker) >= this.#limits.waitingPerAsker)
    );
  }

  wait(id: string, turn: Turn, work: Work): void {
    this.#clock += 1;
    this.#waiting.push({ id, turn, work, arrivedAt: this.#clock });
  }

  /** Forgets one that waits. */
  leave(id: string): void {
    const index = this.#waiting.findIndex((question) => question.id === id);
    if (index >= 0) this.#waiting.splice(index, 1);
  }

  /** How many of those that wait could go if there were places. */
  get ready(): number {
    return this.#waiting.filter(({ turn }) => this.mayRun(turn.askers)).length;
  }

  /** Takes the next one from those that wait; undefined where nobody may go. */
  next(): Work | undefined {
    const next = this.#choose();
    if (next === undefined) return undefined;
    const { question, asker, places } = next;
    this.leave(question.id);
    question.turn.taker = asker;
    this.#running.set(asker, places + 1);
    this.#serve(asker);
    return question.work;
  }

  /** Gives back the place of one that `next` has returned. */
  end({ taker }: Turn): void {
    if (taker === undefined) return;
    const left = this.#placesOf(taker) - 1;
    if (left === 0) this.#running.delete(taker);
    else this.#running.set(taker, left);
    this.#serve(taker);
  }

  #placesOf(asker: string): number {
    return this.#running.get(asker) ?? 0;
  }

  #choose() {
    let best: { question: Waiting<Work>; asker: string; places: number; since: number } | undefined;
    for (const question of this.#waiting) {
      for (const asker of question.turn.askers.present) {
        const places = this.#placesOf(asker);
        if (places >= this.#limits.runningPerAsker) continue;
        const since = Math.max(question.arrivedAt, this.#servedAt.get(asker) ?? 0);
        const isBetter =
          best === undefined ||
          places < best.places ||
          (places === best.places && since < best.since);
        if (isBetter) best = { question, asker, places, since };
      }
    }
    return best;
  }

  #serve(asker: string): void {
    this.#clock += 1;
    this.#servedAt.delete(asker);
    this.#servedAt.set(asker, this.#clock);
    // What was before all that waits now tells nothing any more.
    const oldest = this.#waiting[0]?.arrivedAt ?? Number.POSITIVE_INFINITY;
    for (const [each, at] of this.#servedAt) {
      if (at > oldest) return;
      this.#servedAt.delete(each);
    }
  }
}

type Run = () => Promise<unknown>;
export type TurnOptions = QueueAddOptions & { readonly turn: Turn };
export type WaitingQueue = Queue<Run, TurnOptions>;

/** What `p-queue` takes for its queue: it asks only whether and how to go on. */
export function queueClassOf(turns: Turns<Run>): new () => WaitingQueue {
  return class implements WaitingQueue {
    get size() {
      return turns.ready;
    }
    enqueue(run: Run, { id, turn }: Partial<TurnOptions> = {}) {
      if (id === undefined || turn === undefined) throw new Error('a question has a turn');
      turns.wait(id, turn, run);
    }
    dequeue() {
      return turns.next();
    }
    remove(id: string) {
      turns.leave(id);
    }
    filter(): Run[] {
      throw new Error('turns have no priorities');
    }
    setPriority(): void {
      throw new Error('turns have no priorities');
    }
  };
}
