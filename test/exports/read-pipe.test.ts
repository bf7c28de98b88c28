import { createWriteStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openPipe } from '../../src/exports/pipe.ts';
import { type PipeReader, readPipe } from '../../src/exports/read-pipe.ts';

const openForTest = async () => {
  const { readable, writable } = await openPipe();
  // Writing waits for room, on a thread of its own.
  const writer = createWriteStream('', { fd: writable });
  writer.on('error', () => {});
  return { reader: readPipe(readable), writer };
};
const write = (writer: ReturnType<typeof createWriteStream>, bytes: Buffer) =>
  new Promise<void>((resolve) => writer.write(bytes, () => resolve()));
/** Bytes that differ wherever they are cut. */
const bytesOf = (length: number, seed: number) =>
  Buffer.from(Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 8) * seed) % 251));

/** Copies each part, after holding it for a while: it must still be what it was. */
async function readAll({ parts }: PipeReader, holdMs: (index: number) => number): Promise<Buffer> {
  const copies: Buffer[] = [];
  for await (const part of parts()) {
    const copy = Buffer.from(part);
    await sleep(holdMs(copies.length));
    expect(copy.equals(part)).toBe(true);
    copies.push(copy);
  }
  return Buffer.concat(copies);
}

describe('a pipe', () => {
  it('is read to the last byte, in whatever portions it is written and however slowly read', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ length: fc.integer({ min: 1, max: 400_000 }), pause: fc.boolean() }), {
          minLength: 1,
          maxLength: 6,
        }),
        fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 5 }),
        async (portions, holds) => {
          const { reader, writer } = await openForTest();
          const written = portions.map(({ length }, index) => bytesOf(length, index + 1));
          const writing = (async () => {
            for (const [index, { pause }] of portions.entries()) {
              if (pause) await sleep(70);
              await write(writer, written[index] as Buffer);
            }
            writer.end();
          })();
          const read = await readAll(reader, (index) => holds[index % holds.length] as number);
          await writing;
          expect(read.equals(Buffer.concat(written))).toBe(true);
        },
      ),
      { numRuns: 15, seed: 3, examples: [[[{ length: 1_300_000, pause: false }], [5]]] },
    );
  });

  it('gives what there is where the rest is late', async () => {
    const { reader, writer } = await openForTest();
    const parts = reader.parts();
    for (const text of ['soon', 'late']) {
      await write(writer, Buffer.from(text));
      expect(Buffer.from((await parts.next()).value as Uint8Array).toString()).toBe(text);
    }
    writer.end();
    expect(await parts.next()).toEqual({ done: true, value: undefined });
  });

  it('ends for whoever waits when it is destroyed, with the error if there is one', async () => {
    const left = await openForTest();
    const waiting = left.reader.parts().next();
    left.reader.destroy();
    expect(await waiting).toEqual({ done: true, value: undefined });
    left.writer.destroy();

    const failed = await openForTest();
    const refused = expect(failed.reader.parts().next()).rejects.toThrow('no more');
    failed.reader.destroy(new Error('no more'));
    await refused;
    failed.writer.destroy();
  });
});
