import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Askers } from '../../src/domain/askers.ts';
import { createAnswerCache, type FinishedAnswer } from '../../src/http/answer-cache.ts';

describe('finished answers', () => {
  const { signal: nobodyLeaves } = new AbortController();
  const answerOf = (body: string): FinishedAnswer => ({
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
    let waiting: Askers | undefined;
    const make = async (signal: AbortSignal, askers: Askers) => {
      made += 1;
      given = signal;
      waiting = askers;
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
      askers: () => waiting,
    };
  }

  it('are made once, and remembered', async () => {
    const cache = createAnswerCache(1_000_000);
    const { make, made, finish } = maker();
    const asked = [1, 2, 3].map(() => cache.answer('a', 'somebody', nobodyLeaves, make));
    finish();
    expect(await Promise.all(asked)).toEqual(Array(3).fill(answerOf('answer 1')));
    expect(await cache.answer('a', 'somebody', nobodyLeaves, make)).toEqual(answerOf('answer 1'));
    expect(made()).toBe(1);
  });

  it('are made once for all who ask at the same time, also where none is remembered', async () => {
    const cache = createAnswerCache(0);
    const { make, made, finish } = maker();
    const asked = [1, 2].map(() => cache.answer('a', 'somebody', nobodyLeaves, make));
    finish();
    await Promise.all(asked);
    expect(made()).toBe(1);
    const again = cache.answer('a', 'somebody', nobodyLeaves, make);
    finish();
    expect(await again).toEqual(answerOf('answer 2'));
  });

  it('are given up when the last who asked has left, and not before', async () => {
    const cache = createAnswerCache(1_000_000);
    const { make, made, finish, signal } = maker();
    const [first, second] = [new AbortController(), new AbortController()];
    const asked = [first, second].map((caller) =>
      cache.answer('a', 'somebody', caller.signal, make),
    );
    first.abort(new Error('the first left'));
    await expect(asked[0]).rejects.toThrow('the first left');
    expect(signal()?.aborted).toBe(false);
    second.abort(new Error('the second left'));
    await expect(asked[1]).rejects.toThrow('the second left');
    expect(signal()?.aborted).toBe(true);
    const later = cache.answer('a', 'somebody', nobodyLeaves, make);
    finish();
    expect(await later).toEqual(answerOf('answer 2'));
    expect(made()).toBe(2);
  });

  it('are asked for on behalf of all who wait at the time', async () => {
    const cache = createAnswerCache(1_000_000);
    const { make, finish, askers } = maker();
    const [first, second] = [new AbortController(), new AbortController()];
    const asked = [
      cache.answer('a', 'one', first.signal, make),
      cache.answer('a', 'another', second.signal, make),
      cache.answer('a', 'another', nobodyLeaves, make),
    ];
    expect(askers()?.present).toEqual(['one', 'another', 'another']);
    first.abort(new Error('the first left'));
    await expect(asked[0]).rejects.toThrow('the first left');
    second.abort(new Error('the second left'));
    await expect(asked[1]).rejects.toThrow('the second left');
    expect(askers()?.present).toEqual(['another']);
    finish();
    expect(await asked[2]).toEqual(answerOf('answer 1'));
  });

  it('are not remembered where making them failed', async () => {
    const cache = createAnswerCache(1_000_000);
    const fail = () => Promise.reject(new Error('no'));
    const asked = [1, 2].map(() => cache.answer('a', 'somebody', nobodyLeaves, fail));
    for (const each of asked) await expect(each).rejects.toThrow('no');
    await sleep(0);
    const make = async () => answerOf('yes');
    expect(await cache.answer('a', 'somebody', nobodyLeaves, make)).toEqual(answerOf('yes'));
  });

  it('take no more than they may: the oldest unused go first', async () => {
    const cache = createAnswerCache(100_000);
    const made: string[] = [];
    const ask = (key: string, length = 4_000) =>
      cache.answer(key, 'somebody', nobodyLeaves, async () => {
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
