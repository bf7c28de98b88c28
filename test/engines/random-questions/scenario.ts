import fc from 'fast-check';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { addKey, addOrganization } from '../../support/shop.ts';
import { createTestWorker, type TestWorker } from '../../support/sync.ts';
import { checkAnswer } from './answers.ts';
import type { Asking } from './ask.ts';
import { addBurst, addCustomers, changeRows } from './changes.ts';
import { type Step, step } from './history.ts';
import { type Question, question } from './question.ts';
import type { Reader, Readers } from './reader.ts';
import { type Settings, settings } from './settings.ts';
import { type ShopPlan, shopPlan } from './shop.ts';

export type Scenario = {
  readonly settings: Settings;
  readonly shop: ShopPlan;
  /** Asked at first, and again later. */
  readonly questions: readonly Question[];
  /** After each step, some of the questions are asked again: their positions. */
  readonly history: readonly { readonly step: Step; readonly asked: readonly number[] }[];
};

const maxQuestions = 12;
const long = { size: 'max' } as const;

export const scenario: fc.Arbitrary<Scenario> = fc.record({
  settings,
  shop: shopPlan,
  questions: fc.array(question, { ...long, minLength: 1, maxLength: maxQuestions }),
  history: fc.array(
    fc.record({
      step,
      asked: fc.array(fc.nat({ max: maxQuestions - 1 }), { ...long, maxLength: maxQuestions }),
    }),
    { ...long, maxLength: 6 },
  ),
});

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
    pageEnds: [],
    note: (line) => lines.push(line),
  };
  for (const burst of shop.bursts) await addBurst(asking, burst);
  const service = await openService(asking, directory, readers, settings);
  try {
    for (const each of questions) await checkAnswer(asking, service.reader(), each, 0);
    for (const [index, { step, asked }] of history.entries()) {
      await service.take(step);
      for (const position of asked) {
        const each = questions[position % questions.length] as Question;
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
  const openWorker = (options = {}) =>
    createTestWorker(database, directory, { ...settings.worker, ...options });
  const open = () => readers.open(directory, { organization, secret }, settings);
  let worker: TestWorker = await openWorker();
  let reader: Reader | null = null;
  const replaceWorker = async (options = {}) => {
    await worker.close();
    worker = await openWorker(options);
  };
  const run = async (step: Step): Promise<void> => {
    switch (step.kind) {
      case 'restart':
        await reader?.close();
        reader = await open();
        return;
      case 'evict':
        return reader?.evict();
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
  reader = await open();
  return {
    reader: () => reader as Reader,
    async take(step: Step) {
      note(step.kind);
      await run(step);
      await worker.once([organization]);
      await reader?.untilShown();
    },
    async close() {
      await reader?.close();
      await worker.close();
    },
  };
}
