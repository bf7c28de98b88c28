import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createResponseCache } from '../../src/http/response/response-cache.ts';

describe('cached responses', () => {
  const { signal: neverAborted } = new AbortController();
  const one = { client: 'key 1', signal: neverAborted };
  const version = (asOf = 0n) => ({ name: 'version', asOf });
  const responseOf = (body: string, asOf = 0n) => ({
    body,
    contentType: 'text/plain',
    entityTag: null,
    asOf,
    version: 'version' as string | null,
    next: null,
  });

  /** Computes responses. A computation ends at `finish`, or fails if its signal is aborted. */
  function computation() {
    let computed = 0;
    let finish: () => void = () => {};
    let given: AbortSignal | undefined;
    const compute = async (signal: AbortSignal) => {
      computed += 1;
      given = signal;
      await new Promise<void>((resolve, reject) => {
        finish = resolve;
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      return responseOf(`response ${computed}`);
    };
    return {
      compute,
      computed: () => computed,
      finish: () => finish(),
      signal: () => given,
    };
  }

  it('are aborted when the last client has disconnected, and not before', async () => {
    const cache = createResponseCache(1_000_000);
    const { compute, computed, finish, signal } = computation();
    const [first, second] = [new AbortController(), new AbortController()];
    const responses = [first, second].map((caller) =>
      cache.get(version(), 'a', { client: 'key 1', signal: caller.signal }, compute),
    );
    first.abort(new Error('the first disconnected'));
    await expect(responses[0]).rejects.toThrow('the first disconnected');
    expect(signal()?.aborted).toBe(false);
    second.abort(new Error('the second disconnected'));
    await expect(responses[1]).rejects.toThrow('the second disconnected');
    expect(signal()?.aborted).toBe(true);
    const later = cache.get(version(), 'a', one, compute);
    finish();
    expect(await later).toEqual(responseOf('response 2'));
    expect(computed()).toBe(2);
  });

  it('are computed for each concurrent client, and cached for all', async () => {
    const cache = createResponseCache(1_000_000);
    const computations = [computation(), computation()];
    const responses = computations.map(({ compute }, index) =>
      cache.get(version(), 'a', { client: `key ${index}`, signal: neverAborted }, compute),
    );
    for (const { finish } of computations) finish();
    await Promise.all(responses);
    expect(computations.map(({ computed }) => computed())).toEqual([1, 1]);
    await cache.get(version(), 'a', { client: 'key 2', signal: neverAborted }, () =>
      Promise.reject(new Error('the response is cached')),
    );
  });

  it('are computed again from the instant on at which they may change', async () => {
    const cache = createResponseCache(1_000_000);
    let computed = 0;
    const at = async (asOf: bigint) =>
      cache.get(version(asOf), 'a', one, async () => {
        computed += 1;
        return { ...responseOf(`response ${computed}`, asOf), changesAt: asOf < 10n ? 10n : 20n };
      });
    const bodies = [await at(5n), await at(9n), await at(10n), await at(19n), await at(20n)];
    expect(bodies.map(({ body }) => body)).toEqual([
      ...['response 1', 'response 1', 'response 2', 'response 2', 'response 3'],
    ]);
  });

  it('state the instant of the version that was found, if they show that version', async () => {
    const cache = createResponseCache(1_000_000);
    const get = async (asOf: bigint, response: ReturnType<typeof responseOf> | null) => {
      const { body, asOf: stated } = await cache.get(version(asOf), 'a', one, async () => {
        if (response === null) throw new Error('the response is cached');
        return response;
      });
      return [body, stated];
    };
    // Another engine responded, with data that are not immutable.
    expect(await get(5n, { ...responseOf('other', 3n), version: null })).toEqual(['other', 3n]);
    // The data changed after the version was found.
    expect(await get(5n, { ...responseOf('later', 8n), version: 'next' })).toEqual(['later', 8n]);
    expect(await get(5n, responseOf('own', 6n))).toEqual(['own', 6n]);
    expect(await get(7n, null)).toEqual(['own', 7n]);
    // Postgres's clock went back.
    expect(await get(2n, null)).toEqual(['own', 2n]);
  });

  it('are not shared with a request that found a later version than they show', async () => {
    const cache = createResponseCache(1_000_000);
    const [first, second] = [computation(), computation()];
    const earlier = cache.get(version(5n), 'a', one, async (signal) => ({
      ...(await first.compute(signal)),
      version: null,
    }));
    const later = cache.get(version(6n), 'a', one, second.compute);
    first.finish();
    expect(await earlier).toMatchObject({ asOf: 0n });
    while (second.computed() === 0) await setImmediate();
    second.finish();
    expect(await later).toMatchObject({ body: 'response 1', version: 'version' });
  });

  it('have a bounded size: the least recently used are evicted', async () => {
    const cache = createResponseCache(100_000);
    const computed: string[] = [];
    const get = (key: string, length = 4_000) =>
      cache.get(version(), key, one, async () => {
        computed.push(key);
        return responseOf('x'.repeat(length));
      });
    for (let count = 0; count < 40; count += 1) {
      await get(`key ${count}`);
      await get('popular');
    }
    expect(computed.filter((key) => key === 'popular')).toHaveLength(1);
    await get('key 0');
    expect(computed.filter((key) => key === 'key 0')).toHaveLength(2);
    // A response that would evict many others is not cached.
    await get('huge', 40_000);
    await get('huge', 40_000);
    expect(computed.filter((key) => key === 'huge')).toHaveLength(2);
  });
});
