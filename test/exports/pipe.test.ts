import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openPipe } from '../../src/exports/pipe.ts';

it.runIf(process.platform === 'linux')('a pipe holds a MiB before anybody reads', async () => {
  const { readable, writable } = await openPipe();
  const writer = openSync(`/proc/self/fd/${writable}`, constants.O_WRONLY | constants.O_NONBLOCK);
  const page = Buffer.alloc(4096);
  let held = 0;
  try {
    expect(() => {
      for (;;) held += writeSync(writer, page);
    }).toThrow('EAGAIN');
    expect(held).toBe(2 ** 20);
  } finally {
    for (const descriptor of [readable, writable, writer]) closeSync(descriptor);
  }
});
