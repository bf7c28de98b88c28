import { minorDigits } from '../../../domain/currency.ts';
import { decimalOf } from '../../../domain/decimal.ts';
import type { ExactInteger } from '../api/exact-json.ts';
import { locale, type Plural, pluralOf, texts } from '../language/language.ts';
import { dayAt, startOfDay } from '../view/calendar.ts';
import type { Interval } from '../view/interval.ts';
import type { Days, Span } from '../view/period.ts';

const counts = new Intl.NumberFormat(locale);
const percents = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });
const alignedPercents = new Intl.NumberFormat(locale, {
  style: 'percent',
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const changes = new Intl.NumberFormat(locale, {
  style: 'percent',
  maximumFractionDigits: 1,
  signDisplay: 'exceptZero',
});

export const formatCount = (count: ExactInteger): string => counts.format(BigInt(count));
/** A number with the noun that it counts. */
export const formatCounted = (count: ExactInteger, forms: Plural): string =>
  pluralOf(forms, Number(count), formatCount(count));

export const formatShare = (share: number): string => percents.format(share);
/** With as many digits as the others of a column. */
export const formatAlignedShare = (share: number): string => alignedPercents.format(share);
export const formatChange = (change: number): string => changes.format(change);

const moneyFormats = new Map<string, Intl.NumberFormat>();

/** Currencies are open text in the data: one that Intl refuses is formatted as a plain number. */
function moneyFormat(currency: string | null, options: Intl.NumberFormatOptions) {
  const key = `${currency} ${options.notation}`;
  const known = moneyFormats.get(key);
  if (known !== undefined) return known;
  const isCode = currency !== null && /^[A-Za-z]{3}$/.test(currency);
  const style = isCode ? { style: 'currency' as const, currency } : {};
  const created = new Intl.NumberFormat(locale, { ...options, ...style });
  moneyFormats.set(key, created);
  return created;
}

/** Exact: the amount reaches Intl as decimal text, not as a double. */
export function formatMoney(amount: ExactInteger, currency: string | null): string {
  // Intl has other digits for some currencies, such as none for IQD.
  const digits = minorDigits(currency);
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const text = decimalOf(amount, digits) as Intl.StringNumericLiteral;
  return moneyFormat(currency, options).format(text);
}

/** Text for an axis: exact, and short from a million on. */
export const formatShortMoney = (units: number, currency: string | null): string =>
  moneyFormat(currency, {
    minimumFractionDigits: 0,
    maximumFractionDigits: 3,
    notation: Math.abs(units) < 1e6 ? 'standard' : 'compact',
  }).format(units);

/** The units of an amount as a double. */
export const unitsOf = (amount: ExactInteger, currency: string | null): number =>
  Number(amount) / 10 ** minorDigits(currency);

export const formatShortCount = (count: number): string => formatShortMoney(count, null);

const day = { day: 'numeric', month: 'short', year: 'numeric' } as const;
const minute = { hour: 'numeric', minute: '2-digit' } as const;

const format = (instant: Date | number, options: Intl.DateTimeFormatOptions): string =>
  new Intl.DateTimeFormat(locale, options).format(instant);

export const formatInstant = (instant: string, timeZone?: string): string =>
  format(new Date(instant), {
    ...day,
    ...minute,
    ...(timeZone === undefined ? {} : { timeZone }),
  });

export const formatTime = (instant: Date, timeZone: string): string =>
  format(instant, { timeStyle: 'short', timeZone });

export const formatDays = ({ from, to }: Days): string =>
  new Intl.DateTimeFormat(locale, { ...day, timeZone: 'UTC' }).formatRange(
    new Date(from),
    new Date(to),
  );

/** The time of day at which something ends; nothing for the end of a day. */
function untilTime(end: number, timeZone: string): string {
  const isEndOfDay = startOfDay(dayAt(end, timeZone), timeZone).getTime() === end;
  return isEndOfDay ? '' : texts.dates.until(format(end, { ...minute, timeZone }));
}

export const formatSpan = ({ days, end }: Span, timeZone: string): string =>
  `${formatDays(days)}${untilTime(end, timeZone)}`;

/** The name of a period of a time series. */
export function formatInterval({ start, end, isCut }: Interval, name: string, timeZone: string) {
  const until = isCut ? untilTime(end, timeZone) : '';
  if (name === 'hour') {
    return `${format(start, { day: 'numeric', month: 'short', ...minute, timeZone })}${until}`;
  }
  const days = { from: dayAt(start, timeZone), to: dayAt(end - 1, timeZone) };
  const isWhole = !isCut && days.from.endsWith(name === 'year' ? '-01-01' : '-01');
  if (isWhole && name === 'year') return format(start, { year: 'numeric', timeZone });
  if (isWhole && name === 'month')
    return format(start, { month: 'short', year: 'numeric', timeZone });
  return `${formatDays(days)}${until}`;
}

/** Texts for an axis: with the day where hours are of several days, and the year where days are of several years. */
export function formatTicks(starts: readonly number[], name: string, timeZone: string): string[] {
  const spans = (length: number) =>
    new Set([starts[0], starts.at(-1)].map((at) => dayAt(at ?? 0, timeZone).slice(0, length)))
      .size > 1;
  const monthAndDay = { day: 'numeric', month: 'short' } as const;
  const fields: Intl.DateTimeFormatOptions =
    name === 'hour'
      ? { hour: 'numeric', ...(spans(10) ? monthAndDay : { minute: '2-digit' }) }
      : name === 'month' || name === 'year'
        ? { ...(name === 'month' ? { month: 'short' } : {}), year: 'numeric' }
        : { ...monthAndDay, ...(spans(4) ? { year: 'numeric' } : {}) };
  return starts.map((start) => format(start, { ...fields, timeZone }));
}
