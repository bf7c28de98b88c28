import { expect } from 'vitest';

type Sums = { readonly purchase_count: string; readonly revenue_in_cents: string };
type Statistics = Sums & {
  readonly object: 'purchase_stats';
  readonly group_by: string | null;
  readonly groups: readonly Sums[];
  readonly groups_truncated: boolean;
};
type Series = Sums & {
  readonly object: 'purchase_timeseries';
  readonly series: readonly { readonly periods: readonly Sums[] }[];
  readonly series_truncated: boolean;
};
type Report = {
  readonly object: 'purchase_report';
  readonly totals: Partial<Sums>;
  readonly group_by: readonly string[];
  readonly rows: readonly Partial<Sums>[];
  readonly rows_truncated: boolean;
};

/** The parts of an answer add up to its totals, whatever Postgres says. */
export function addUp(answer: unknown): void {
  const given = answer as Statistics | Series | Report | { readonly object: '' };
  if (given.object === 'purchase_stats' && given.group_by !== null && !given.groups_truncated) {
    expectSums(given.groups, given);
  }
  if (given.object === 'purchase_timeseries' && !given.series_truncated) {
    expectSums(
      given.series.flatMap(({ periods }) => periods),
      given,
    );
  }
  if (given.object === 'purchase_report' && given.group_by.length > 0 && !given.rows_truncated) {
    // A purchase has a row for each of its coupons.
    if (!given.group_by.includes('coupon')) expectSums(given.rows, given.totals);
  }
}

function expectSums(parts: readonly Partial<Sums>[], totals: Partial<Sums>): void {
  for (const name of ['purchase_count', 'revenue_in_cents'] as const) {
    if (totals[name] === undefined) continue;
    const sum = parts.reduce((sum, part) => sum + BigInt(part[name] as string), 0n);
    expect(sum, `the sum of ${name}`).toBe(BigInt(totals[name]));
  }
}
