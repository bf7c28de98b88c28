import type { z } from 'zod';
import { currencyCode, spellingsOf } from '../../domain/currency.ts';
import { earliestInstant, latestInstant } from '../../domain/instant.ts';
import { periodOffsets } from '../../domain/period.ts';
import { trackingLabels } from '../../domain/purchase.ts';
import {
  type CustomerType,
  type LocalTimes,
  maxTexts,
  type PurchaseFilters,
} from '../../domain/purchase-query.ts';
import { readPurchaseStats } from '../../domain/purchase-stats.ts';
import { ApiError } from '../../http/response/errors.ts';
import type { ApiRequest } from '../../http/route.ts';
import { excludedValues, valuesExcludedOf } from './excluded-values.ts';
import type { purchaseListParameters } from './purchase-parameters.ts';

type FilterParameters = Partial<Omit<z.output<typeof purchaseListParameters>, 'format'>> & {
  readonly compare_to?: string | undefined;
  readonly customer_type?: CustomerType | undefined;
};
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
    currency: query.currency?.flatMap(currencyTexts),
    without: query.without,
    coupon: query.coupon,
    not: query.not && excludedValues(query.not, currencyTexts),
    localTimes: await localTimesOf(query),
    customerType: query.customer_type,
    ...Object.fromEntries(trackingLabels.map((label) => [label, query[label]])),
  };
}

/** Shops store codes in any case. */
function currencyTexts(text: string): readonly string[] {
  const code = currencyCode(text);
  return code === null ? [text] : spellingsOf(code);
}

/** With the offsets of the request's time zone, which are few between bounds. */
async function localTimesOf(query: FilterParameters): Promise<LocalTimes | undefined> {
  const { weekday, hour_of_day, timezone } = query;
  if (weekday === undefined && hour_of_day === undefined) return undefined;
  const timeZone = timezone === 'UTC' ? undefined : timezone;
  const { since, until } = selectedTime(query);
  return {
    weekdays: weekday,
    hours: hour_of_day,
    offsets: await periodOffsets({ interval: 'day', timeZone }, since, until),
  };
}

/** No selected purchase is earlier or later. A report may compare its time with an earlier one, before either bound. */
function selectedTime({ compare_to, created_since, created_until }: FilterParameters) {
  const [since = earliestInstant, until = latestInstant] = [created_since, created_until];
  return compare_to === undefined
    ? { since, until }
    : { since: earliestInstant, until: since > until ? since : until };
}

const isCode = (text: string): boolean => currencyCode(text) !== null;

/** Other texts than codes may be stored too. One that is not is a mistake, whose answer would be zero. */
async function requireKnownCurrencies(request: FilterRequest): Promise<void> {
  const { query, organizationId, purchases, signal, client } = request;
  const excluded = valuesExcludedOf(query.not ?? [], 'currency');
  const given = new Set([...(query.currency ?? []), ...excluded]);
  const currency = [...given].filter((text) => !isCode(text));
  if (currency.length === 0) return;
  const ofAny = { filters: { currency }, groupBy: 'currency', groupLimit: maxTexts } as const;
  const { result } = await readPurchaseStats(purchases, organizationId, ofAny, signal, client);
  const stored = result.groups.map(({ key }) => key);
  const unknown = currency.find((text) => !stored.includes(text));
  if (unknown === undefined) return;
  const param = query.currency?.includes(unknown) === true ? 'currency' : 'not';
  throw new ApiError(
    'validation_error',
    `${param === 'not' ? 'not: ' : ''}currency ${JSON.stringify(unknown)} is no code of ISO 4217, and no purchase has it. For several currencies, ` +
      'give the parameter several times.',
    { param },
  );
}
