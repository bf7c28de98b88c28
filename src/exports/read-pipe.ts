import { Socket } from 'node:net';

/** Each part costs the same to send on. */
const partBytes = 512 * 1024;
/** What has been read waits no longer than this for a part to be full. */
const longestWaitMs = 50;

export type PipeReader = {
  /** All there is to read, in parts, each valid until the next is asked for. To be called once. */
  parts(): AsyncGenerator<Uint8Array, void>;
  /** Closes the pipe. Whoever waits for a part gets the error, or the end where there is none. */
  destroy(error?: Error): void;
};

/**
 * Reads a pipe by its descriptor, which is closed in the end, into the same memory again
 * and again: with new memory for each part, collecting that garbage takes more processor
 * time than all else that is done to the bytes.
 */
export function readPipe(descriptor: number): PipeReader {
  const slab = Buffer.allocUnsafeSlow(partBytes);
  /** Of the slab: what has been read into it, and what of that is taken. */
  let [filled, taken] = [0, 0];
  let full: Uint8Array | null = null;
  let isDue = false;
  let isClosed = false;
  let failure: Error | undefined;
  let timer: NodeJS.Timeout | undefined;
  let wake = () => {};

  const noteRead = (bytes: number): boolean => {
    filled += bytes;
    timer ??= setTimeout(() => {
      isDue = true;
      wake();
    }, longestWaitMs);
    if (filled < partBytes) return true;
    full = slab.subarray(taken);
    // Reading stops here, and goes on from the beginning once all of it has been returned.
    filled = 0;
    taken = 0;
    wake();
    return false;
  };
  const socket = new Socket({
    fd: descriptor,
    readable: true,
    writable: false,
    onread: { buffer: () => slab.subarray(filled), callback: noteRead },
  } as ConstructorParameters<typeof Socket>[0]);
  socket
    .once('error', (error) => {
      failure = error;
    })
    .once('close', () => {
      isClosed = true;
      wake();
    });

  const take = (): Uint8Array | null => {
    if (full === null && filled > taken && (isDue || isClosed)) {
      full = slab.subarray(taken, filled);
      taken = filled;
    }
    const part = full;
    full = null;
    if (part === null) return null;
    clearTimeout(timer);
    timer = undefined;
    isDue = false;
    return part;
  };

  return {
    async *parts() {
      for (;;) {
        if (failure !== undefined) throw failure;
        const part = take();
        if (part !== null) yield part;
        else if (isClosed) return;
        else {
          socket.resume();
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    },
    destroy: (error) => {
      clearTimeout(timer);
      socket.destroy(error);
    },
  };
}
