import { locale, texts } from '../language/language.ts';
import { dayAt } from '../view/calendar.ts';
import { formatDays } from './format.ts';

/** The name of the period in which customers first bought. */
export function cohortLabel(startsAt: string, interval: string, timeZone: string): string {
  const day = dayAt(Date.parse(startsAt), timeZone);
  if (interval === 'week') return formatDays({ from: day, to: day });
  const [year = '', month = ''] = day.split('-');
  if (interval === 'quarter') return texts.cohorts.quarter(Math.ceil(Number(month) / 3), year);
  const options = { month: 'short', year: 'numeric', timeZone: 'UTC' } as const;
  return new Intl.DateTimeFormat(locale, options).format(new Date(day));
}
