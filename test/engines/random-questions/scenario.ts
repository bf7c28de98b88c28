import fc from 'fast-check';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { addKey, addOrganization } from '../../support/shop.ts';
import { checkAnswer } from './answers.ts';
import type { Asking } from './ask.ts';
import { addBurst, addCustomers, changeRows } from './changes.ts';
import { type Step, stepOfFewKinds } from './history.ts';
import { type Question, questionAbout, topics } from './question.ts';
import type { Reader, Readers } from './reader.ts';
import { type Settings, settings } from './settings.ts';
import { type ShopPlan, shopPlan } from './shop.ts';
import { openStore } from './store.ts';

export type Scenario = {
  readonly settings: Settings;
  readonly shop: ShopPlan;
  /** Asked at first, and again later. */
  readonly questions: readonly Question[];
  readonly history: readonly Chapter[];
};

/** Steps, after which some questions are asked. */
type Chapter = {
  readonly steps: readonly Step[];
  /** Questions that have not been asked before. */
  readonly newQuestions: readonly Question[];
  /** The positions of the questions that are asked again. */
  readonly asked: readonly number[];
};

const maxQuestions = 8;
const long = { size: 'max' } as const;

/** Most scenarios ask few kinds of questions, so that answers that share a cache meet. */
const chosenTopics = fc.oneof(
  { weight: 1, arbitrary: fc.constant(topics) },
  { weight: 4, arbitrary: fc.subarray(topics, { minLength: 1, maxLength: 2 }) },
);

export const scenario: fc.Arbitrary<Scenario> = fc
  .tuple(chosenTopics, stepOfFewKinds)
  .chain(([chosen, step]) =>
    fc.record({
      settings,
      shop: shopPlan,
      questions: fc.array(questionAbout(chosen), {
        ...long,
        minLength: 1,
        maxLength: maxQuestions,
      }),
      history: fc.array(
        fc.record({
          steps: fc.array(step, { ...long, minLength: 1, maxLength: 3 }),
          newQuestions: fc.array(questionAbout(chosen), { ...long, maxLength: 4 }),
          asked: fc.array(fc.nat({ max: maxQuestions - 1 }), { ...long, maxLength: 8 }),
        }),
        { ...long, maxLength: 6 },
      ),
    }),
  );

/** Runs a scenario with a new organization, in an empty folder. Throws at the first wrong answer. */
export async function runScenario(
  database: Database,
  directory: string,
  readers: Readers,
  { settings, shop, questions, history }: Scenario,
): Promise<void> {
  const lines = [`settings: ${JSON.stringify(settings)}`];
  const organization = await addOrganization(database);
  const asking: Asking = {
    database,
    organization,
    customers: await addCustomers(database, organization),
    origins: shop.origins,
    instants: [],
    pageEnds: [],
    note: (line) => lines.push(line),
  };
  for (const burst of shop.bursts) await addBurst(asking, burst);
  const service = await openService(asking, directory, readers, settings);
  try {
    for (const each of questions) await checkAnswer(asking, service.reader(), each, 0);
    for (const [index, { steps, newQuestions, asked }] of history.entries()) {
      for (const step of steps) await service.take(step);
      const again = asked.map((position) => questions[position % questions.length] as Question);
      for (const each of [...newQuestions, ...again]) {
        await checkAnswer(asking, service.reader(), each, index + 1);
      }
    }
  } catch (error) {
    throw new Error(`${lines.join('\n')}\n${(error as Error).message}`, { cause: error });
  } finally {
    await service.close();
  }
}

/** A worker and an API, which show what Postgres has. */
async function openService(
  asking: Asking,
  directory: string,
  readers: Readers,
  settings: Settings,
) {
  const { database, organization, note } = asking;
  const { secret } = await addKey(database, organization);
  const store = await openStore(database, directory, settings);
  const openWorker = (options = {}) => store.createWorker({ ...settings.worker, ...options });
  let worker = await openWorker();
  const replaceWorker = async (options = {}) => {
    await worker.close();
    worker = await openWorker(options);
  };
  let reader: Reader | undefined;
  const openReader = async () => {
    const engine = await store.openEngine();
    const { responseCacheBytes } = settings.shortcuts;
    reader = readers.open(engine, { organization, secret }, responseCacheBytes);
  };
  const run = async (step: Step): Promise<void> => {
    switch (step.kind) {
      case 'restart':
        return openReader();
      case 'evict':
        return store.evict(organization);
      case 'compact':
        await replaceWorker({ maxLogRecords: 0 });
        await worker.once([organization]);
        return replaceWorker();
      case 'publish':
        return;
      default:
        return changeRows(asking, step);
    }
  };
  await worker.once([organization]);
  await openReader();
  return {
    reader: () => reader as Reader,
    async take(step: Step) {
      note(step.kind);
      await run(step);
      await worker.once([organization]);
      await store.untilShown(organization);
    },
    async close() {
      await worker.close();
      await store.close();
    },
  };
}
