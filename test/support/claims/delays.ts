import { register } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { packageFile } from '../../../src/process/package-files.ts';
import { createRandomSource } from '../../../src/seed/random-source.ts';

// Runs a program whose `await` expressions end late at random: `delays.ts <seed> <program>`.
const [seed = '', program = ''] = process.argv.splice(2);
const random = createRandomSource('delays', seed, program);
const probability = random.pick([0.02, 0.05]);
const maxDelayMs = random.pick([20, 100, 400]);
console.log(`delays: ${probability} of awaits, up to ${maxDelayMs} ms`);

Object.assign(globalThis, {
  /** `delayed-modules.ts` replaces `await value` by `await endLate(value)`. */
  async endLate(value: unknown) {
    const result = await value;
    if (random.chance(probability)) await sleep(random.between(0, maxDelayMs));
    return result;
  },
});
register('./delayed-modules.ts', import.meta.url);
await import(pathToFileURL(packageFile(program)).href);
