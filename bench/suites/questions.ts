import { inRounds, timed, wall } from '../measure/rounds.ts';
import { median, summaryOf } from '../measure/statistics.ts';
import { createPaths, type HttpQuestion, httpQuestions } from '../queries/http-questions.ts';
import { decimal, describeWarnings, spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { startRunningService } from '../setup/running-service.ts';
import type { BenchmarkShop } from '../setup/shops.ts';

/** Most shops have about so many purchases. */
const fewPurchases = 20_000;

export const questionsSuite = defineSuite({
  name: 'questions',
  description: `what each kind of question takes over HTTP, more than /v1/me, with ${fewPurchases.toLocaleString('en')} purchases and with many`,
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 31 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const sizes = [fewPurchases, purchases].map((count) => ({
      organizations: 1,
      purchases: count,
      seed,
    }));
    const service = await startRunningService({ scope, server }, sizes, {
      api: { RATE_LIMIT_PER_MINUTE: '1000000' },
    });
    const [few, many] = service.shops as [BenchmarkShop, BenchmarkShop];
    const pathOf = createPaths();
    const ask = (question: HttpQuestion, shop: BenchmarkShop) => () =>
      service.get(pathOf(question), shop);
    const figures = [];
    for (const [name, question] of Object.entries(httpQuestions)) {
      const tasks = {
        me: timed(() => service.get('/v1/me', few)),
        few: timed(ask(question, few)),
        many: timed(ask(question, many)),
      };
      const times = await inRounds(tasks, { rounds, warmUps: 3, signal: scope.signal });
      const more = (task: 'few' | 'many') =>
        median(times[task].map((time, round) => time.wall - (times.me[round]?.wall ?? 0)));
      figures.push({
        question: name,
        meMs: summaryOf(times.me, wall),
        moreOfFewMs: more('few'),
        moreOfManyMs: more('many'),
        manyMs: summaryOf(times.many, wall),
      });
    }
    const warnings = service.warnings();
    return {
      text: [
        tableOf(figures, {
          question: ({ question }) => question,
          [`${fewPurchases.toLocaleString('en')} purchases, ms more than /v1/me`]: ({
            moreOfFewMs,
          }) => decimal(moreOfFewMs),
          [`${purchases.toLocaleString('en')} purchases, ms more`]: ({ moreOfManyMs }) =>
            decimal(moreOfManyMs),
          'all of it, ms': ({ manyMs }) => spread(manyMs),
          '/v1/me, ms': ({ meMs }) => spread(meMs),
        }),
        ...describeWarnings(warnings),
      ],
      figures: { questions: figures, warnings },
    };
  },
});
