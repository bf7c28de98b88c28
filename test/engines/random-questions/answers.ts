import type { Sql } from 'sql-template-tag';
import { expect } from 'vitest';
import { formatInstant } from '../../../src/domain/instant.ts';
import { type Asking, ask, type Bounded, compare, urlOf } from './ask.ts';
import { instantOf } from './moments.ts';
import { cohorts } from './oracle/cohorts.ts';
import type { Asked } from './oracle/filters.ts';
import { report } from './oracle/report.ts';
import { statistics, timeSeries } from './oracle/statistics.ts';
import { checkPages, checkPurchase } from './pages.ts';
import type { Filters, Parameters, Question } from './question.ts';
import type { Answer, Reader } from './reader.ts';

/** Asks a question of the API and of Postgres. `growth` counts the steps before. */
export async function checkAnswer(
  asking: Asking,
  reader: Reader,
  question: Question,
  growth: number,
): Promise<void> {
  if (question.route === 'purchase') return checkPurchase(asking, reader, question.back);
  const { since, until, customer } = question.filters;
  const instant = (bound: Filters['since']) =>
    bound === undefined
      ? null
      : formatInstant(
          instantOf(
            bound,
            bound.isOfPurchase ? asking.instants : asking.origins,
            bound.growth * growth,
          ),
        );
  const asked: Bounded = {
    organization: asking.organization,
    ...textsOf(question.filters.parameters),
    customer: customer === undefined ? null : (asking.customers[customer] as bigint),
    since: instant(since),
    until: instant(until),
  };
  if (question.route === 'list') return checkPages(asking, reader, question, asked);
  const parameters = { ...asked.parameters, ...question.parameters };
  const url = urlOf(`/v1/purchases/${question.route}`, { ...asked, parameters });
  const answer = await ask(asking, reader, url);
  const all = { ...asked, parameters, asOf: answer.asOf ?? new Date().toISOString() };
  if (question.route === 'report' && isRefused(all)) {
    expect(answer.status).toBe(422);
    return;
  }
  await compare(asking, answer, statementOf(question.route, all, answer));
}

/** A comparison needs a beginning, and weeks have no dates in another month or year. */
function isRefused({ parameters, since }: Asked): boolean {
  const { compare_to: comparison, group_by: groupBy = '' } = parameters;
  const isByDate = comparison === 'previous_month' || comparison === 'previous_year';
  return (
    comparison !== undefined &&
    (since === null || (isByDate && groupBy.split(',').includes('week')))
  );
}

function statementOf(route: Question['route'], asked: Asked, answer: Answer): Sql {
  if (route === 'stats') return statistics(asked);
  if (route === 'report') return report(asked);
  if (route === 'cohorts') return cohorts(asked);
  const { interval = '' } = asked.parameters;
  if (interval !== 'auto') return timeSeries(asked, interval);
  return timeSeries(asked, /"interval":"(\w+)"/.exec(answer.body)?.[1] ?? 'year');
}

/** Filters by text apart from other parameters. */
function textsOf(given: Parameters): Pick<Asked, 'parameters' | 'texts'> {
  const parameters: Record<string, string> = {};
  const texts: Record<string, readonly string[]> = {};
  for (const [name, value] of Object.entries(given)) {
    if (/^(utm_.*|currency|coupon|not)$/.test(name)) texts[name] = [value].flat();
    else parameters[name] = String(value);
  }
  return { parameters, texts };
}
