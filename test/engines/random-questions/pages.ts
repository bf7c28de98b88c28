import { expect } from 'vitest';
import { decodeId, encodeId } from '../../../src/domain/public-id.ts';
import { type Asking, ask, type Bounded, compare, type PageEnd, select, urlOf } from './ask.ts';
import { page, purchase } from './oracle/lists.ts';
import type { Form, Question } from './question.ts';
import type { Reader } from './reader.ts';

type Wire = { readonly data: readonly { readonly id: string; readonly created_at: string }[] };

/** Asks for pages of a list, one after another. */
export async function checkPages(
  asking: Asking,
  reader: Reader,
  { limit, back, first, walk, isOfCustomer }: Extract<Question, { route: 'list' }>,
  bounded: Bounded,
): Promise<void> {
  const { pageEnds } = asking;
  const path =
    isOfCustomer && bounded.customer !== null
      ? `/v1/customers/${encodeId('customer', bounded.customer)}/purchases`
      : '/v1/purchases';
  const pageAfter = (end: PageEnd | undefined, form: Form) =>
    checkPage(asking, reader, { path, bounded, limit, end, form });
  const begin = back === undefined ? undefined : pageEnds.at(-1 - back);
  let end: PageEnd | null = null;
  for (const form of begin === undefined ? first.slice(0, 1) : first) {
    end = await pageAfter(begin, form);
  }
  for (const form of walk) {
    if (end === null) return;
    pageEnds.push(end);
    end = await pageAfter(end, form);
  }
  if (end !== null) pageEnds.push(end);
}

type Page = {
  readonly path: string;
  readonly bounded: Bounded;
  readonly limit: number;
  readonly end: PageEnd | undefined;
  readonly form: Form;
};

/** The end of the page; null if it is the last one. */
async function checkPage(
  asking: Asking,
  reader: Reader,
  { path, bounded, limit, end, form }: Page,
): Promise<PageEnd | null> {
  const isId = form === 'id';
  const cursor = end && (isId ? encodeId('purchase', end.id) : end.cursor);
  const parameters = {
    ...bounded.parameters,
    limit: String(limit),
    ...(cursor === undefined ? {} : { starting_after: cursor }),
  };
  const answer = await ask(asking, reader, urlOf(path, { ...bounded, parameters }));
  // A deleted purchase is a cursor until its files are compacted.
  if (isId && end !== undefined && (await isDeleted(asking, end.id))) {
    expect([200, 400]).toContain(answer.status);
    return null;
  }
  const after = end === undefined ? null : { id: end.id, createdAt: isId ? null : end.createdAt };
  await compare(asking, answer, page({ ...bounded, asOf: '' }, limit, after));
  const last = (JSON.parse(answer.body) as Wire).data.at(-1);
  if (last === undefined || answer.next === undefined) return null;
  const id = decodeId('purchase', last.id) as bigint;
  expect(answer.next.split('.')[0]).toBe(last.id);
  return { id, createdAt: last.created_at, cursor: answer.next };
}

/** Asks for one purchase that has ended a page. */
export async function checkPurchase(asking: Asking, reader: Reader, back: number): Promise<void> {
  const end = asking.pageEnds.at(-1 - back);
  if (end === undefined) return;
  const answer = await ask(asking, reader, `/v1/purchases/${encodeId('purchase', end.id)}`);
  if (await isDeleted(asking, end.id)) expect(answer.status).toBe(404);
  else await compare(asking, answer, purchase(asking.organization, end.id));
}

const isDeleted = async ({ database, organization }: Asking, id: bigint): Promise<boolean> =>
  (await select(database, purchase(organization, id))) === null;
