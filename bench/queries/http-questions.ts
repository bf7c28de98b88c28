/** A question over HTTP. */
export type HttpQuestion = {
  /** Below /v1. */
  readonly path: string;
  /** The range ends with the present, as that of a dashboard, instead of the end of the demo data. */
  readonly endsNow?: true;
  /** How many days before the end of the demo data a range begins; all purchases if undefined. */
  readonly days?: number;
};

const sums = 'measures=purchase_count,revenue_in_cents';
const withCustomers = `${sums},customer_count`;

/** Each kind of question. */
export const httpQuestions: Readonly<Record<string, HttpQuestion>> = {
  totals: { path: '/purchases/stats?' },
  'totals of 30 days, paid': { path: '/purchases/stats?status=paid', days: 30 },
  'ranking by campaign': { path: '/purchases/stats?group_by=utm_campaign' },
  'ranking by source, paid': { path: '/purchases/stats?group_by=utm_source&status=paid' },
  'paid, 30 days by campaign': {
    path: '/purchases/stats?group_by=utm_campaign&status=paid',
    days: 30,
  },
  'weekly series': { path: '/purchases/timeseries?interval=week' },
  'monthly series of Berlin': {
    path: '/purchases/timeseries?interval=month&timezone=Europe/Berlin',
  },
  '30 days by day': { path: '/purchases/timeseries?interval=day', days: 30 },
  'a year by month and source': {
    path: '/purchases/timeseries?interval=month&group_by=utm_source',
    days: 365,
  },
  'report by platform': { path: `/purchases/report?${sums}&group_by=platform` },
  'three dimensions, with customers': {
    path: `/purchases/report?${withCustomers}&group_by=utm_source,platform,status&limit=1000`,
  },
  'week by campaign, with customers': {
    path: `/purchases/report?${withCustomers}&group_by=week,utm_campaign&limit=1000`,
  },
  'new and returning by campaign, a year': {
    path: `/purchases/report?${sums},new_customer_count,returning_customer_count&group_by=utm_campaign`,
    days: 365,
  },
  'a month by campaign, compared': {
    path: `/purchases/report?${sums}&group_by=utm_campaign&compare_to=previous_period`,
    days: 30,
  },
  'the best 100 customers': { path: `/purchases/report?${sums}&group_by=customer` },
  'the best 100 customers, with names': {
    path: `/purchases/report?${sums}&group_by=customer&expand=customer`,
  },
  'customers who bought twice, not for ninety days': {
    path: '/customers?total_orders_min=2&total_orders_max=2&last_purchase_until=2025-10-03T00:00:00Z',
  },
  'median by campaign': {
    path: '/purchases/report?measures=median_value_in_cents&group_by=utm_campaign',
  },
  'repeat customers by campaign': {
    path: '/purchases/report?measures=repeat_customer_count&group_by=utm_campaign',
  },
  'ranking by coupon': {
    path: `/purchases/report?${withCustomers}&group_by=coupon`,
  },
  'monthly cohorts, paid, a year': { path: '/purchases/cohorts?status=paid', days: 365 },
};

export const listQuestions: Readonly<Record<string, HttpQuestion>> = {
  'first page of 30 days': { path: '/purchases?limit=25', days: 30, endsNow: true },
  'first page, paid, until a bound': { path: '/purchases?limit=25&status=paid', endsNow: true },
};

/** Demo data end on 1 January 2026. */
const end = Date.UTC(2026, 0, 1);
const dayMs = 86_400_000;

/** Returns paths with bounds in milliseconds that no earlier one had, so that no cache has the response. */
export function createPaths(): (question: HttpQuestion) => string {
  let asked = 0;
  return ({ path, days, endsNow }) => {
    asked += 1;
    const until = endsNow ? Date.now() + dayMs + asked : end + asked;
    const since =
      days === undefined
        ? ''
        : `&created_since=${new Date(end - days * dayMs - asked).toISOString()}`;
    return `/v1${path}${since}&created_until=${new Date(until).toISOString()}`;
  };
}
