import { once } from 'node:events';
import { pipeline, Readable, Transform, Writable } from 'node:stream';
import { createGzip, gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { LentParts } from '../../src/http/lent-parts.ts';

/** Numbers as text, each written over the one before. */
async function* numbers(upTo: number, seen = { returned: false }) {
  const memory = Buffer.alloc(8);
  try {
    for (let number = 0; number < upTo; number += 1) {
      memory.write(String(number).padStart(8));
      yield memory;
      memory.fill('#');
    }
  } finally {
    seen.returned = true;
  }
}
const expected = (upTo: number) =>
  Array.from({ length: upTo }, (_, number) => String(number).padStart(8)).join('');

/** Looks at what it is given late, and only then lets go of it. */
function lateWriter(given: string[]) {
  return new Writable({
    write(part: Buffer, _encoding, done) {
      setImmediate(() => {
        given.push(part.toString());
        done();
      });
    },
  });
}

describe('parts that are lent', () => {
  it('are written before the next one is asked for', async () => {
    const given: string[] = [];
    const destination = lateWriter(given);
    new LentParts(numbers(100)).pipe(destination);
    await once(destination, 'finish');
    expect(given.join('')).toBe(expected(100));
  });

  it('may be compressed on their way', async () => {
    const given: Buffer[] = [];
    const compressed = pipeline(new LentParts(numbers(5_000)), createGzip(), () => {});
    for await (const part of compressed) given.push(part as Buffer);
    expect(gunzipSync(Buffer.concat(given)).toString()).toBe(expected(5_000));
  });

  it('are no longer asked for once their stream is destroyed', async () => {
    const seen = { returned: false };
    const stuck = new Writable({ write: () => {} });
    const body = new LentParts(numbers(10, seen));
    body.pipe(stuck);
    const failed = once(body, 'error');
    body.destroy(new Error('left'));
    await expect(failed).resolves.toEqual([new Error('left')]);
    while (!seen.returned) await new Promise((resolve) => setImmediate(resolve));
  });

  it('end their stream with the error that they end with, or their destination', async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('first');
        throw new Error('broken');
      })(),
    );
    const body = new LentParts(broken);
    body.pipe(lateWriter([]));
    await expect(once(body, 'close')).rejects.toThrow('broken');

    const refusing = new Transform({
      transform: (_part, _encoding, done) => done(new Error('refused')),
    });
    refusing.on('error', () => {});
    const other = new LentParts(numbers(2));
    other.pipe(refusing);
    await expect(once(other, 'close')).rejects.toThrow('refused');
  });
});
