import { isDeepStrictEqual } from 'node:util';
import sql, { type Sql } from 'sql-template-tag';
import { expect } from 'vitest';
import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { parseExactly, parseOracle } from './exact-json.ts';
import type { Asked } from './oracle/filters.ts';
import type { Answer, Reader } from './reader.ts';

/** The shop of a scenario. */
export type Asking = {
  readonly database: Database;
  readonly organization: bigint;
  readonly customers: readonly bigint[];
  readonly origins: readonly string[];
  /** Those at which purchases were created when they were inserted. */
  readonly instants: string[];
  /** The last purchases of pages. */
  readonly pageEnds: PageEnd[];
  /** Notes what a person has to do to see the same. */
  readonly note: (line: string) => void;
};

/** `cursor` is opaque: it has the position that the purchase had. */
export type PageEnd = {
  readonly id: bigint;
  readonly createdAt: string;
  readonly cursor: string;
};

/** The parameters of a question, before it has an answer. */
export type Bounded = Omit<Asked, 'asOf'>;

export function urlOf(
  path: string,
  { parameters, texts, customer, since, until }: Bounded,
): string {
  const query = new URLSearchParams(parameters);
  for (const [name, wanted] of Object.entries(texts)) {
    for (const text of wanted) query.append(name, text);
  }
  if (customer !== null && !path.includes('/customers/')) {
    query.set('customer_id', encodeId('customer', customer));
  }
  if (since !== null) query.set('created_since', since);
  if (until !== null) query.set('created_until', until);
  return `${path}?${query}`;
}

export async function ask(asking: Asking, reader: Reader, url: string): Promise<Answer> {
  asking.note(`GET ${decodeURIComponent(url.replaceAll('+', ' '))}`);
  return reader.ask(url);
}

/**
 * Throws if an answer is not the one that a statement selects. The statement selects null if the question is
 * refused.
 */
export async function compare({ database }: Asking, answer: Answer, exact: Sql): Promise<void> {
  const text = await select(database, exact);
  if (text === null) return void expect(answer.status).toBe(422);
  if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.body}`);
  const [given, expected] = [parseExactly(answer.body), parseOracle(text)];
  // Vitest compares long answers a hundred times slower.
  if (!isDeepStrictEqual(given, expected)) expect(given).toEqual(expected);
}

export async function select(database: Database, exact: Sql): Promise<string | null> {
  const statement = sql`select answer::text from (${exact}) as oracle (answer)`;
  const { text, values } = statement;
  const { rows } = await database.query<{ answer: string | null }>({ text, values });
  return rows[0]?.answer ?? null;
}
