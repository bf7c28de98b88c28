import { isDeepStrictEqual } from 'node:util';
import { type Shortcuts, shortcutSettings } from '../../../src/duckdb/shortcuts.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { inRounds, type Time, time, wall } from '../../measure/rounds.ts';
import { ratioOf, summaryOf } from '../../measure/statistics.ts';
import { spread, tableOf } from '../../report/tables.ts';
import { withScope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { openDuckDBEngine, prepareShops } from '../../setup/prepared-shops.ts';
import { startProgram, startService } from '../../setup/programs.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { type Asked, type Question, questionsOf } from './questions.ts';

const changesAtOnce = 25;
/** Of the log, when measurements begin. */
const changesBefore = 1_000;

type Name = keyof Shortcuts;

export const shortcuts = defineSuite({
  name: 'shortcuts',
  description: 'questions with each shortcut of the engine at its threshold, and without it',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 15 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const sizes = [{ organizations: 1, purchases, seed }];
    const prepared = await prepareShops({ scope, server }, sizes);
    const { organizationId } = prepared.shops[0] as BenchmarkShop;
    const { pool } = prepared.database;
    await change(pool, organizationId, changesBefore);
    await startProgram(scope, 'sync/main.ts', ['once'], prepared.environment).done();
    startService(scope, 'sync/main.ts', [], prepared.environment);
    const { rows } = await pool.query<{ id: bigint }>(
      'select id from purchases where organization_id = $1 order by md5(id::text) limit 20000',
      [organizationId],
    );
    let ids = 0;
    const nextId = () => (rows[++ids % rows.length] as (typeof rows)[number]).id;
    const asking = { organizationId, dataDirectory: prepared.dataDirectory, nextId };

    const measure = (name: Name, question: Question) =>
      withScope(scope.signal, async (inner) => {
        const { signal } = inner;
        const without = { [name]: shortcutSettings[name].off };
        const [usual, off] = await Promise.all(
          [{}, without].map(async (thresholds): Promise<Asked> => {
            const engine = await openDuckDBEngine(inner, prepared, thresholds);
            return { ...asking, engine, signal, shortcuts: thresholds };
          }),
        );
        const [one, other] = [usual, off].map((asked) => () => question.ask(asked as Asked));
        if (one === undefined || other === undefined) throw new Error('unreachable');
        await requireEqual(name, question, one, other);
        const measured = (asked: Asked | undefined, ask: () => Promise<unknown>) => async () => {
          if (question.isAfterChanges) {
            const instant = await change(pool, organizationId, changesAtOnce);
            await asked?.engine.waitUntilFresh(organizationId, instant, signal);
          }
          return time(ask);
        };
        const tasks = { usual: measured(usual, one), off: measured(off, other) };
        const times = await inRounds(tasks, { rounds, warmUps: 3, signal });
        return { name, question: question.name, ...summarize(times) };
      });

    const figures = [];
    for (const [name, questions] of Object.entries(questionsOf) as [Name, readonly Question[]][]) {
      for (const question of questions) figures.push(await measure(name, question));
    }
    return {
      text: [
        tableOf(figures, {
          shortcut: ({ name }) => name,
          question: ({ question }) => question,
          ms: ({ milliseconds }) => spread(milliseconds),
          'off / usual': ({ ratio }) => spread(ratio, 2),
          'processor time': ({ cpu }) => spread(cpu, 2),
        }),
        'A shortcut stays if it saves a fifth of a question: off / usual is at least 1.25.',
      ],
      figures: { shortcuts: figures },
    };
  },
});

const summarize = ({ usual, off }: Record<'usual' | 'off', readonly Time[]>) => ({
  milliseconds: summaryOf(usual, wall),
  ratio: ratioOf(off, usual, wall),
  cpu: ratioOf(off, usual, ({ cpu }) => cpu),
});

/** The time of a wrong result is worthless. */
async function requireEqual(
  name: Name,
  question: Question,
  one: () => Promise<unknown>,
  other: () => Promise<unknown>,
): Promise<void> {
  // Each is asked for another purchase.
  if (question.name.startsWith('one purchase')) return;
  if (isDeepStrictEqual(await one(), await other())) return;
  throw new Error(`without ${name}, the result of ${question.name} is another one`);
}

/** Changes some of the newest purchases, and returns a later instant. */
async function change(pool: Database, organizationId: bigint, count: number): Promise<bigint> {
  await pool.query(
    `update purchases set payment_status = case when payment_status = 'paid' then 'refunded' else 'paid' end
     where id in (
       select id from purchases where organization_id = $1 order by created_at desc
       limit $2 offset floor(random() * 1000)::int)`,
    [organizationId, count],
  );
  const { rows } = await pool.query<{ instant: bigint }>(
    'select (extract(epoch from clock_timestamp()) * 1000000)::bigint as instant',
  );
  return rows[0]?.instant as bigint;
}
