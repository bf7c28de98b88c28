import {
  type Currencies,
  noMatch,
  noteCurrency,
  noteFilters,
  noteInstant,
  noteStatuses,
  noteUtc,
  type ToolRead,
} from './notes.ts';

type Cohort = { readonly periods: readonly { readonly is_complete: boolean }[] };

type CohortResponse = Currencies & { readonly rows: readonly Cohort[] };

export async function noteCohorts(read: ToolRead<CohortResponse>): Promise<string[]> {
  const cohorts = read.response.rows;
  const isOpen = cohorts.some(({ periods }) => periods.some((period) => !period.is_complete));
  return [
    ...noteInstant(read),
    noteStatuses(read),
    ...noteCurrency(read),
    ...(cohorts.length === 0 ? [noMatch] : []),
    ...(isOpen
      ? ['Periods with is_complete false are not over: do not compare them with whole ones.']
      : []),
    'periods[0] is the period of the first purchase. Customers of periods do not add up, because one may buy in several.',
    'Filters other than status select first purchases. Later purchases count whatever they are.',
    ...(await noteFilters(read)),
    ...noteUtc(read),
  ];
}
