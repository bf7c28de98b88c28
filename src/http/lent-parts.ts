import { Readable } from 'node:stream';

/**
 * A stream of parts that are valid until the next is asked for: it asks for one once the
 * part before has been written, not merely taken. It can be piped and nothing else.
 */
export class LentParts extends Readable {
  readonly #parts: AsyncIterable<Uint8Array>;

  constructor(parts: AsyncIterable<Uint8Array>) {
    super({ read: () => {} });
    this.#parts = parts;
  }

  override pipe<Destination extends NodeJS.WritableStream>(
    destination: Destination,
    { end = true }: { readonly end?: boolean } = {},
  ): Destination {
    if (end) this.once('end', () => destination.end());
    this.#writeTo(destination).then(
      () => {
        this.push(null);
        this.resume();
      },
      (error: Error) => this.destroy(error),
    );
    return destination;
  }

  async #writeTo(destination: NodeJS.WritableStream): Promise<void> {
    // Of a destination that is gone not every write is told of.
    let giveUp = (_error: Error) => {};
    const closed = new Error('closed before the end');
    this.once('close', () => giveUp(closed));
    for await (const part of this.#parts) {
      await new Promise<void>((resolve, reject) => {
        giveUp = reject;
        if (this.destroyed) reject(closed);
        else destination.write(part, (error) => (error ? reject(error) : resolve()));
      });
    }
  }
}
