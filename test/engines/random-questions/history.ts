import fc from 'fast-check';
import { type Burst, burst, couponsOf, currenciesOf, customerCount } from './shop.ts';

/** Which purchases a step changes: by their place in the order of a list, or of one customer. */
export type Selection =
  | { readonly every: number }
  | { readonly newest: number }
  | { readonly ofCustomer: number }
  /** The purchases after which pages were read last. */
  | { readonly pageEnds: number };

/** New values of columns. `quarters` moves the instant. */
export type Change = {
  readonly status?: string | null;
  readonly cents?: number;
  readonly currency?: string | null;
  readonly source?: string | null;
  readonly coupons?: object | null;
  readonly customer?: number;
  readonly quarters?: number;
  readonly micros?: number;
};

export type Step =
  | { readonly kind: 'insert'; readonly burst: Burst }
  | { readonly kind: 'update'; readonly of: Selection; readonly change: Change }
  | { readonly kind: 'delete'; readonly of: Selection }
  /** Nothing changes but the instant of the data. */
  | { readonly kind: 'publish' }
  | { readonly kind: 'compact' }
  | { readonly kind: 'restart' }
  | { readonly kind: 'evict' };

const selection: fc.Arbitrary<Selection> = fc.oneof(
  fc.record({ every: fc.constantFrom(1, 2, 3, 7, 50) }),
  fc.record({ newest: fc.constantFrom(1, 2, 5) }),
  fc.record({ ofCustomer: fc.nat({ max: customerCount - 1 }) }),
  { weight: 3, arbitrary: fc.record({ pageEnds: fc.constantFrom(1, 2, 4) }) },
);

const quarters = fc.constantFrom(1, -1, 96, -96 * 3, 96 * 31);

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ quarters }),
  fc
    .record(
      {
        status: fc.constantFrom('paid', 'refunded', 'pending', null),
        cents: fc.constantFrom(0, 1, 100, 12_345),
        currency: fc.constantFrom(...new Set(Object.values(currenciesOf).flat())),
        source: fc.constantFrom('google', 'new', null),
        coupons: fc.constantFrom<object | null>(...couponsOf.few),
        customer: fc.nat({ max: customerCount - 1 }),
        quarters,
        micros: fc.constantFrom(1, -1),
      },
      { requiredKeys: [] },
    )
    .filter((columns) => Object.keys(columns).length > 0),
);

const changesOfRows = {
  insert: { weight: 3, arbitrary: fc.record({ kind: fc.constant('insert' as const), burst }) },
  update: {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('update' as const), of: selection, change }),
  },
  // Away from the pages that are cached.
  move: {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('update' as const),
      of: fc.constant<Selection>({ pageEnds: 4 }),
      change: fc.constant<Change>({ quarters: -96 * 3 }),
    }),
  },
  delete: {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('delete' as const), of: selection }),
  },
} as const;

const changesOfFiles = (['compact', 'restart', 'evict', 'publish'] as const).map((kind) => ({
  weight: kind === 'compact' ? 5 : 2,
  arbitrary: fc.constant<Step>({ kind }),
}));

/** The steps of a scenario are of few kinds, so that one follows another one often. */
export const stepOfFewKinds: fc.Arbitrary<fc.Arbitrary<Step>> = fc
  .tuple(
    fc.subarray(Object.values(changesOfRows), { minLength: 1 }),
    fc.subarray(changesOfFiles, { minLength: 1, maxLength: 2 }),
  )
  .map(([ofRows, ofFiles]) => fc.oneof(...ofRows, ...ofFiles));

/** A condition on `purchases` with $1 as the organization, and its other parameters. */
export function conditionOf(
  of: Selection,
  customers: readonly bigint[],
  pageEnds: readonly bigint[],
): { readonly text: string; readonly values: readonly unknown[] } {
  if ('ofCustomer' in of) return { text: 'customer_id = $2', values: [customers[of.ofCustomer]] };
  if ('pageEnds' in of) return { text: 'id = any($2)', values: [pageEnds.slice(-of.pageEnds)] };
  const [place, wanted] = 'every' in of ? ['place % $2 = 0', of.every] : ['place <= $2', of.newest];
  return {
    text: `id in (
      select id from (
        select id, row_number() over (order by created_at desc, id desc) as place
        from purchases where organization_id = $1
      ) as placed where ${place})`,
    values: [wanted],
  };
}

/** The assignments of a change. Its parameters follow those of the condition. */
export function assignmentsOf(
  change: Change,
  customers: readonly bigint[],
  used: number,
): { readonly text: string; readonly values: readonly unknown[] } {
  const values: unknown[] = [];
  const parameter = (value: unknown) => `$${used + values.push(value)}`;
  const assignments: string[] = [];
  if (change.status !== undefined) assignments.push(`payment_status = ${parameter(change.status)}`);
  if (change.cents !== undefined) {
    assignments.push(`purchase_value_in_cents = ${parameter(change.cents)}`);
  }
  if (change.currency !== undefined) assignments.push(`currency = ${parameter(change.currency)}`);
  if (change.source !== undefined) assignments.push(`utm_source = ${parameter(change.source)}`);
  if (change.coupons !== undefined) {
    const stored = change.coupons === null ? null : JSON.stringify(change.coupons);
    assignments.push(`coupons = ${parameter(stored)}`);
  }
  if (change.customer !== undefined) {
    assignments.push(`customer_id = ${parameter(customers[change.customer])}`);
  }
  const { quarters = 0, micros = 0 } = change;
  if (quarters !== 0 || micros !== 0) {
    const moved = `created_at + ${parameter(quarters)} * interval '15 minutes'
      + ${parameter(micros)} * interval '1 microsecond'`;
    assignments.push(`created_at = least(greatest(${moved}, timestamptz '0001-01-01 00:00:00Z'),
      timestamptz '9999-12-31 23:59:59.999999Z')`);
  }
  return { text: assignments.length === 0 ? 'id = id' : assignments.join(', '), values };
}
