/**
 * On whose behalf a question is asked, as texts that tell askers apart. Where
 * questions must wait, they go by turns of their askers; who wants the same answer
 * may join a question that is already asked.
 */
export class Askers {
  readonly #present: string[];
  readonly #listeners: (() => void)[] = [];

  constructor(asker: string) {
    this.#present = [asker];
  }

  /** Each as often as it has joined and not left. */
  get present(): readonly string[] {
    return this.#present;
  }

  join(asker: string): void {
    this.#present.push(asker);
    for (const listener of this.#listeners) listener();
  }

  leave(asker: string): void {
    const index = this.#present.indexOf(asker);
    if (index >= 0) this.#present.splice(index, 1);
  }

  /** Calls `listener` each time after another one has joined. */
  onJoin(listener: () => void): void {
    this.#listeners.push(listener);
  }
}
