import type { ExactInteger } from '../api/exact-json.ts';

/** Text in the browser's language. */

const counts = new Intl.NumberFormat();
const percents = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
const changes = new Intl.NumberFormat(undefined, {
  style: 'percent',
  maximumFractionDigits: 1,
  signDisplay: 'exceptZero',
});

export const formatCount = (count: ExactInteger): string => counts.format(BigInt(count));
export const formatShare = (share: number): string => percents.format(share);
export const formatChange = (change: number): string => changes.format(change);

const moneyFormats = new Map<string, Intl.NumberFormat>();

/** Currencies are open text in the data: one that Intl refuses is formatted as a plain number. */
function moneyFormat(currency: string | null, options: Intl.NumberFormatOptions) {
  const key = `${currency} ${options.notation}`;
  const known = moneyFormats.get(key);
  if (known !== undefined) return known;
  const isCode = currency !== null && /^[A-Za-z]{3}$/.test(currency);
  const style = isCode ? { style: 'currency' as const, currency } : {};
  const created = new Intl.NumberFormat(undefined, { ...options, ...style });
  moneyFormats.set(key, created);
  return created;
}

/** Exact to the cent: the amount reaches Intl as decimal text, not as a double. */
export function formatMoney(cents: ExactInteger, currency: string | null): string {
  const amount = BigInt(cents);
  const absolute = String(amount < 0n ? -amount : amount).padStart(3, '0');
  const decimal = `${amount < 0n ? '-' : ''}${absolute.slice(0, -2)}.${absolute.slice(-2)}`;
  const twoDigits = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return moneyFormat(currency, twoDigits).format(decimal as Intl.StringNumericLiteral);
}

/** Short text for an axis. */
export const formatShortMoney = (amount: number, currency: string | null): string =>
  moneyFormat(currency, { notation: 'compact', maximumFractionDigits: 1 }).format(amount);

export const formatShortCount = (count: number): string =>
  moneyFormat(null, { notation: 'compact', maximumFractionDigits: 1 }).format(count);

const day = { day: 'numeric', month: 'short', year: 'numeric' } as const;

export const formatInstant = (instant: string, timeZone?: string): string =>
  new Intl.DateTimeFormat(undefined, {
    ...day,
    hour: '2-digit',
    minute: '2-digit',
    ...(timeZone === undefined ? {} : { timeZone }),
  }).format(new Date(instant));

export const formatTime = (instant: Date): string =>
  new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' }).format(instant);

export const formatDays = ({ from, to }: { readonly from: string; readonly to: string }): string =>
  new Intl.DateTimeFormat(undefined, { ...day, timeZone: 'UTC' }).formatRange(
    new Date(from),
    new Date(to),
  );

/** The name of a period of a time series. */
export function formatPeriod(startsAt: string, interval: string, timeZone: string): string {
  const fields = {
    hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
    month: { month: 'short', year: 'numeric' },
  } as const;
  const shown = fields[interval as keyof typeof fields] ?? day;
  const text = new Intl.DateTimeFormat(undefined, { ...shown, timeZone }).format(
    new Date(startsAt),
  );
  return interval === 'week' ? `Week of ${text}` : text;
}

/** As above, for an axis. */
export function formatTick(startsAt: string, interval: string, timeZone: string): string {
  const fields = {
    hour: { hour: '2-digit', minute: '2-digit' },
    month: { month: 'short', year: '2-digit' },
  } as const;
  const shown = fields[interval as keyof typeof fields] ?? { day: 'numeric', month: 'short' };
  return new Intl.DateTimeFormat(undefined, { ...shown, timeZone }).format(new Date(startsAt));
}
