import { once } from 'node:events';

/** A snapshot holds back vacuum. Rows that Postgres sends without a pause take a fraction of this time. */
const maxReadMs = 30 * 60_000;

/**
 * Passes batches to `take`. Resolves with its promise when all batches are read, or when it settles: from
 * then on, the transaction that the batches are read in is not needed.
 */
export async function untilRead<Batch, Result>(
  batches: AsyncIterable<Batch>,
  take: (batches: AsyncIterable<Batch>) => Promise<Result>,
): Promise<{ readonly taken: Promise<Result> }> {
  const exhausted = new AbortController();
  const taken = take(notifyAtEnd(batches, () => exhausted.abort()));
  taken.catch(() => {});
  await Promise.race([taken, once(exhausted.signal, 'abort')]);
  return { taken };
}

async function* notifyAtEnd<Batch>(batches: AsyncIterable<Batch>, onEnd: () => void) {
  yield* batches;
  onEnd();
}

/** Runs `read` with a signal that is also aborted if `read` takes too long, because its client is slow. */
export async function withReadDeadline<Result>(
  signal: AbortSignal | undefined,
  read: (signal: AbortSignal) => Promise<Result>,
  timeoutMs = maxReadMs,
): Promise<Result> {
  const deadline = new AbortController();
  const timer = setTimeout(
    () => deadline.abort(new Error(`the rows of an export were not read within ${timeoutMs} ms`)),
    timeoutMs,
  );
  try {
    return await read(
      AbortSignal.any([deadline.signal, ...(signal === undefined ? [] : [signal])]),
    );
  } finally {
    clearTimeout(timer);
  }
}
