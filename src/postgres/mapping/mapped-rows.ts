import { digitsByCurrency, usualDigits } from '../../domain/currency.ts';
import { maxTextBytes, purchaseColumns } from '../../domain/purchase.ts';
import { keyTypeOf, type MappedView, type Mapping } from './mapping-definition.ts';

/** A column of the service that a view may have. */
export type MappedColumn = {
  readonly name: string;
  readonly kind: 'cents' | 'instant' | 'text' | 'boolean' | 'object' | 'array';
};

const customerColumns: readonly MappedColumn[] = [
  ...['name', 'email', 'phone', 'source', 'identification'].map(
    (name) => ({ name, kind: 'text' }) as const,
  ),
  { name: 'is_subscribed', kind: 'boolean' },
  { name: 'is_subscribed_to_email', kind: 'boolean' },
  { name: 'default_address', kind: 'object' },
  { name: 'attributes', kind: 'object' },
  { name: 'created_at', kind: 'instant' },
];

/** The columns that the user may write, by view. */
export const mappedColumns: Readonly<Record<MappedView, readonly MappedColumn[]>> = {
  mapped_customers: customerColumns,
  mapped_purchases: purchaseColumns.flatMap(({ name, kind }): MappedColumn[] => {
    if (name === 'id' || name === 'customer_id' || name === 'updated_at') return [];
    if (kind === 'cents' || kind === 'instant') return [{ name, kind }];
    return [{ name, kind: kind === 'coupons' ? 'array' : 'text' }];
  }),
};

/** The name of an amount in units of its currency, such as `purchase_value`. */
export const unitsName = (name: string): string => name.replace(/_in_cents$/, '');

/** What identifies a row. */
export const identifyingColumns: Readonly<Record<MappedView, readonly string[]>> = {
  mapped_customers: ['external_id', 'organization_id'],
  mapped_purchases: ['external_id', 'organization_id', 'customer_external_id'],
};

/** Columns without which a view cannot be mapped, and the name in units that may replace one. */
export const requiredColumns: Readonly<Record<MappedView, readonly string[]>> = {
  mapped_customers: identifyingColumns.mapped_customers,
  mapped_purchases: [
    ...identifyingColumns.mapped_purchases,
    'purchase_value_in_cents',
    'created_at',
  ],
};

/** SQL of the rows of a view with the columns of the service. */
type MappedRows = {
  /** The columns of the service that the view has, in the order of the select list. */
  readonly columns: readonly MappedColumn[];
  /**
   * The select list over the view `v`: external_id, organization_id, for purchases
   * customer_external_id, `columns`, and `refusal`: null, or an array of the column and the reason.
   */
  readonly selectList: string;
};

const earliest = `'0001-01-01 00:00:00+00'`;
const latest = `'10000-01-01 00:00:00+00'`;

/** Rows of which the view has another one: which of them is right is not known. */
const repeatedRow = `when count(*) over (partition by v.external_id, v.organization_id) > 1
  then array[null, 'has several rows in the view']`;

/** The condition that a row is refused because its organization is not known. */
export const hasNoOrganization = `refusal[1] = 'organization_id'`;

/** Repeated rows are refused unless the caller counts them. */
export function mappedRows(
  mapping: Mapping,
  view: MappedView,
  { areRepeatedRefused = false } = {},
): MappedRows {
  const available = mapping.views[view];
  const columns = mappedColumns[view].filter(
    ({ name }) => available.has(name) || available.has(unitsName(name)),
  );
  const refusals = [
    refusal('organization_id', 'is null', 'v.organization_id is null'),
    refusal(
      'organization_id',
      'is the number of no organization',
      'not exists (select from organizations where organizations.id = v.organization_id)',
    ),
    ...(areRepeatedRefused ? [repeatedRow] : []),
  ];
  const selected = columns.map((column) => {
    const isInUnits = !available.has(column.name);
    const name = isInUnits ? unitsName(column.name) : column.name;
    const hasCurrency = available.has('currency');
    const { value, refusals: own } = mapped(column, view, `v.${name}`, isInUnits, hasCurrency);
    const isRequired = requiredColumns[view].includes(column.name);
    if (isRequired) refusals.push(refusal(name, 'is null', `v.${name} is null`));
    for (const [reason, condition] of own) refusals.push(refusal(name, reason, condition));
    return `${value} as ${column.name}`;
  });
  const customer = castKey(
    'v.customer_external_id',
    available.get('customer_external_id'),
    keyTypeOf(mapping, 'mapped_customers'),
  );
  return {
    columns,
    selectList: [
      'v.external_id',
      'v.organization_id::bigint as organization_id',
      ...(view === 'mapped_purchases' ? [`${customer} as customer_external_id`] : []),
      ...selected,
      `case ${refusals.join(' ')} end as refusal`,
    ].join(', '),
  };
}

/** External ids of another type are compared as text. */
const castKey = (key: string, type: string | undefined, wanted: string): string =>
  type === wanted ? key : `${key}::text::${wanted}`;

const refusal = (column: string, reason: string, condition: string): string =>
  `when ${condition} then array['${column}', '${reason}']`;

/** The value of a column as SQL, and when the service refuses it. */
function mapped(
  { kind }: MappedColumn,
  view: MappedView,
  value: string,
  isInUnits: boolean,
  hasCurrency: boolean,
): { readonly value: string; readonly refusals: readonly (readonly [string, string])[] } {
  switch (kind) {
    case 'cents': {
      const factor = isInUnits ? unitsPerCurrency(hasCurrency) : '1';
      const amount = `(${value}::numeric * ${factor})`;
      const isWhole = `${amount} = trunc(${amount})`;
      const isInRange = `abs(${amount}) < 9223372036854775808`;
      return {
        // NaN is greater than all numbers.
        value: `case when ${isWhole} and ${isInRange} then ${amount}::bigint end`,
        refusals: [
          ['is out of range', `not ${isInRange}`],
          ['has a fraction of the smallest unit of its currency', `not (${isWhole})`],
        ],
      };
    }
    case 'instant': {
      const isInRange = `${value} >= ${earliest} and ${value} < ${latest}`;
      return {
        value: `case when ${isInRange} then ${value}::timestamptz end`,
        refusals: [['is not within the years 1 to 9999', `not (${isInRange})`]],
      };
    }
    case 'text':
      return {
        value: `${value}::text`,
        refusals:
          view === 'mapped_purchases'
            ? [
                [
                  `has more than ${maxTextBytes.label} bytes`,
                  `octet_length(${value}::text) > ${maxTextBytes.label}`,
                ],
              ]
            : [],
      };
    case 'boolean':
      return { value: `coalesce(${value}::boolean, false)`, refusals: [] };
    default:
      return {
        value: `${value}::jsonb`,
        refusals: [
          [`is no JSON ${kind}`, `jsonb_typeof(${value}::jsonb) <> '${kind}'`],
          ...(kind === 'array'
            ? [
                [
                  `has more than ${maxTextBytes.coupons} bytes`,
                  `octet_length(${value}::jsonb::text) > ${maxTextBytes.coupons}`,
                ] as const,
              ]
            : []),
        ],
      };
  }
}

/** How many of the smallest units a unit of the row's currency has. */
function unitsPerCurrency(hasCurrency: boolean): string {
  const usualUnits = String(10 ** usualDigits);
  if (!hasCurrency) return usualUnits;
  const cases = Object.entries(digitsByCurrency).map(
    ([currency, digits]) => `when '${currency}' then ${10 ** digits}`,
  );
  return `case v.currency::text ${cases.join(' ')} else ${usualUnits} end`;
}
