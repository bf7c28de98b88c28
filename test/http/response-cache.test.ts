import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  createResponseCache,
  type SerializedResponse,
} from '../../src/http/response/response-cache.ts';

describe('cached responses', () => {
  const { signal: nobodyLeaves } = new AbortController();
  const one = { client: 'key 1', signal: nobodyLeaves };
  const answerOf = (body: string): SerializedResponse => ({
    body,
    contentType: 'text/plain',
    entityTag: null,
    asOf: 0n,
    next: null,
  });

  /** What is asked of it, and answers each question when told to. */
  function maker() {
    let made = 0;
    let finish: () => void = () => {};
    let given: AbortSignal | undefined;
    const make = async (signal: AbortSignal) => {
      made += 1;
      given = signal;
      await new Promise<void>((resolve, reject) => {
        finish = resolve;
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      return answerOf(`answer ${made}`);
    };
    return {
      make,
      made: () => made,
      finish: () => finish(),
      signal: () => given,
    };
  }

  it('are computed once', async () => {
    const cache = createResponseCache(1_000_000);
    const { make, made, finish } = maker();
    const asked = [1, 2, 3].map(() => cache.get('a', one, make));
    finish();
    expect(await Promise.all(asked)).toEqual(Array(3).fill(answerOf('answer 1')));
    expect(await cache.get('a', one, make)).toEqual(answerOf('answer 1'));
    expect(made()).toBe(1);
  });

  it('are computed once for concurrent requests, also without a cache', async () => {
    const cache = createResponseCache(0);
    const { make, made, finish } = maker();
    const asked = [1, 2].map(() => cache.get('a', one, make));
    finish();
    await Promise.all(asked);
    expect(made()).toBe(1);
    const again = cache.get('a', one, make);
    finish();
    expect(await again).toEqual(answerOf('answer 2'));
  });

  it('are aborted when the last client has disconnected, and not before', async () => {
    const cache = createResponseCache(1_000_000);
    const { make, made, finish, signal } = maker();
    const [first, second] = [new AbortController(), new AbortController()];
    const asked = [first, second].map((caller) =>
      cache.get('a', { client: 'key 1', signal: caller.signal }, make),
    );
    first.abort(new Error('the first left'));
    await expect(asked[0]).rejects.toThrow('the first left');
    expect(signal()?.aborted).toBe(false);
    second.abort(new Error('the second left'));
    await expect(asked[1]).rejects.toThrow('the second left');
    expect(signal()?.aborted).toBe(true);
    const later = cache.get('a', one, make);
    finish();
    expect(await later).toEqual(answerOf('answer 2'));
    expect(made()).toBe(2);
  });

  it('are computed for each concurrent client, and cached for all', async () => {
    const cache = createResponseCache(1_000_000);
    const makers = [maker(), maker()];
    const asked = makers.map(({ make }, index) =>
      cache.get('a', { client: `key ${index}`, signal: nobodyLeaves }, make),
    );
    for (const { finish } of makers) finish();
    await Promise.all(asked);
    expect(makers.map(({ made }) => made())).toEqual([1, 1]);
    await cache.get('a', { client: 'key 2', signal: nobodyLeaves }, () =>
      Promise.reject(new Error('it is remembered')),
    );
  });

  it('are not cached if they fail', async () => {
    const cache = createResponseCache(1_000_000);
    const fail = () => Promise.reject(new Error('no'));
    const asked = [1, 2].map(() => cache.get('a', one, fail));
    for (const each of asked) await expect(each).rejects.toThrow('no');
    await sleep(0);
    const make = async () => answerOf('yes');
    expect(await cache.get('a', one, make)).toEqual(answerOf('yes'));
  });

  it('have a bounded size: the least recently used are evicted', async () => {
    const cache = createResponseCache(100_000);
    const made: string[] = [];
    const ask = (key: string, length = 4_000) =>
      cache.get(key, one, async () => {
        made.push(key);
        return answerOf('x'.repeat(length));
      });
    for (let count = 0; count < 40; count += 1) {
      await ask(`question ${count}`);
      await ask('popular');
    }
    expect(made.filter((key) => key === 'popular')).toHaveLength(1);
    await ask('question 0');
    expect(made.filter((key) => key === 'question 0')).toHaveLength(2);
    // One that would take the place of many is not kept.
    await ask('huge', 40_000);
    await ask('huge', 40_000);
    expect(made.filter((key) => key === 'huge')).toHaveLength(2);
  });
});
