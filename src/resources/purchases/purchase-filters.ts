import type { z } from 'zod';
import { currencyCode, spellingsOf } from '../../domain/currency.ts';
import { trackingLabels } from '../../domain/purchase.ts';
import { maxTexts, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { purchaseStats } from '../../domain/purchase-stats.ts';
import { ApiError } from '../../http/response/errors.ts';
import type { ApiRequest } from '../../http/route.ts';
import type { purchaseListParameters } from './purchase-parameters.ts';

type FilterParameters = Partial<Omit<z.output<typeof purchaseListParameters>, 'format'>>;
type FilterRequest = Omit<ApiRequest<unknown, FilterParameters>, 'path'>;

/** The filters of a request. Rejects if a currency is neither a code nor one of any purchase. */
export async function readFilters(request: FilterRequest): Promise<PurchaseFilters> {
  const { query } = request;
  await requireKnownCurrencies(request);
  return {
    customerId: query.customer_id,
    paymentStatuses: query.status,
    platforms: query.platform,
    createdSince: query.created_since,
    createdUntil: query.created_until,
    minValueInCents: query.min_value_in_cents,
    maxValueInCents: query.max_value_in_cents,
    // Shops store codes in any case.
    currency: query.currency?.flatMap((text) => (isCode(text) ? spellingsOf(text) : [text])),
    without: query.without,
    coupon: query.coupon,
    ...Object.fromEntries(trackingLabels.map((label) => [label, query[label]])),
  };
}

const isCode = (text: string): boolean => currencyCode(text) !== null;

/** Other texts than codes may be stored too. One that is not is a mistake, whose answer would be zero. */
async function requireKnownCurrencies(request: FilterRequest): Promise<void> {
  const { query, organizationId, purchases, signal, client } = request;
  const currency = query.currency?.filter((text) => !isCode(text)) ?? [];
  if (currency.length === 0) return;
  const ofAny = { filters: { currency }, groupBy: 'currency', groupLimit: maxTexts } as const;
  const { result } = await purchaseStats(purchases, organizationId, ofAny, signal, client);
  const stored = result.groups.map(({ key }) => key);
  const unknown = currency.find((text) => !stored.includes(text));
  if (unknown === undefined) return;
  throw new ApiError(
    'validation_error',
    `currency ${JSON.stringify(unknown)} is no code of ISO 4217, and no purchase has it. For several currencies, ` +
      'give the parameter several times.',
    { param: 'currency' },
  );
}
