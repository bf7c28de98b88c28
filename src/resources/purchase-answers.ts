import type { FastifyReply } from 'fastify';
import { formatInstant } from '../domain/instant.ts';
import { type AsOf, type PurchasePage, UnknownCursorError } from '../domain/purchase-engine.ts';
import { invalidCursor } from '../http/parameters.ts';
import { listOf } from '../http/wire.ts';
import { purchaseOnTheWire, purchaseSchema } from './purchase-wire.ts';

export const purchaseListSchema = listOf(purchaseSchema);

/** Says how fresh an answer is, and passes the answer on. */
export function dated<Answer>(reply: FastifyReply, { answer, asOf }: AsOf<Answer>): Answer {
  reply.header('X-Data-As-Of', formatInstant(asOf));
  return answer;
}

export async function purchaseList(reply: FastifyReply, asking: Promise<AsOf<PurchasePage>>) {
  const page = dated(
    reply,
    await asking.catch((error: unknown) => {
      throw error instanceof UnknownCursorError ? invalidCursor() : error;
    }),
  );
  return { data: page.purchases.map(purchaseOnTheWire), has_more: page.hasMore };
}
