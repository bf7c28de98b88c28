import type { Builder } from '../../sync/builds/builder.ts';
import type { WorkerParts } from './sync.ts';

type Method = 'load' | 'catchUp' | 'compact';

/** A promise, and the function that resolves it. */
export function createGate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Replaces methods of a worker's builder. */
export const withBuilder =
  (replaced: (builder: Builder) => Partial<Builder>) =>
  ({ builder }: WorkerParts): Partial<WorkerParts> => ({
    builder: { ...builder, ...replaced(builder) },
  });

/** Lets builds wait before they publish, until `end` is called. `kinds` are those that have begun. */
export function heldBuilds(...held: readonly Method[]) {
  const begun = createGate();
  const ended = createGate();
  const kinds: Method[] = [];
  const hold = async <Result>(kind: Method, build: () => Promise<Result>): Promise<Result> => {
    if (!held.includes(kind)) return build();
    kinds.push(kind);
    const result = await build();
    begun.resolve();
    await ended.promise;
    return result;
  };
  const replace = withBuilder((builder) => ({
    load: (...args) => hold('load', () => builder.load(...args)),
    catchUp: (...args) => hold('catchUp', () => builder.catchUp(...args)),
    compact: (...args) => hold('compact', () => builder.compact(...args)),
  }));
  return { replace, kinds, begun: begun.promise, end: () => ended.resolve() };
}
