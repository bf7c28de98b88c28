/** Values as they are in a URL. */
export type Values = { readonly accepted: readonly string[]; readonly refused: readonly string[] };

const noNumbers = [
  ...['', '-1', '-0', '%2B5', '+5', '1.5', '1.0', '1,5', '1e1', '0x10', 'abc', '5a', 'NaN'],
  ...['Infinity', 'null', 'true', '%205', '5%20', '5%0A', '5%00', '1_000', 'R$1', '%EF%BC%95'],
  ...['%D9%A5', '9223372036854775808', '18446744073709551616', '9'.repeat(400)],
];
/** Up to the maximum of a bigint. */
const whole: Values = {
  accepted: ['0', '1', '007', '9007199254740993', '9223372036854775807'],
  refused: noNumbers,
};
/** A parameter that may be given up to 50 times. */
const several = (name: string): Values => ({
  accepted: [
    'a'.repeat(256),
    '%C3%A9'.repeat(256),
    '%F0%9F%9B%92'.repeat(256),
    "%27%22%25%5C%3B--%0A%09+%7F%E2%80%A8'",
    `a,b&${name}=a&${name}=b`,
    times(name, 50),
  ],
  refused: [
    ...['', 'a'.repeat(257), '%F0%9F%9B%92'.repeat(257), 'a%00b'],
    ...[`a&${name}=b&${name}=a`, `a&${name}=`, `a&${name}=${'b'.repeat(257)}`, times(name, 51)],
  ],
});
/** So many values of a parameter, without the name of the first one. */
const times = (name: string, count: number): string =>
  Array.from({ length: count }, (_, index) => index).join(`&${name}=`);
const idValues = (prefix: string, other: string): Values => ({
  accepted: [`${prefix}_nobody`, `${prefix}_a-b_c`, `${prefix}_${'a'.repeat(2000)}`],
  refused: [
    ...['', `${prefix}_`, prefix, `${prefix.toUpperCase()}_abc`, `${other}_abc`, '_abc', '1'],
    ...[`${prefix}_a%20b`, `%20${prefix}_abc`, `${prefix}_abc%0A`, `${prefix}_abc%00`],
    ...[`${prefix}_a.b`, `${prefix}_%C3%A9`, `${prefix}_a,${prefix}_b`],
  ],
});
/** Other accepted dates have tests of their own, which compare the purchases that match. */
const dates: Values = {
  accepted: ['2026-01-05T00:00:00Z'],
  refused: [
    ...['', '2026-01-01', '2026-01', '2026-W01-1', '00:00:00Z', '1767225600', 'now', 'infinity'],
    ...['Thu,%2001%20Jan%202026%2000:00:00%20GMT', '2026-02-30T00:00:00Z'],
    ...['2025-02-29T00:00:00Z', '2026-13-01T00:00:00Z', '2026-00-01T00:00:00Z'],
    ...['2026-01-00T00:00:00Z', '2026-01-32T00:00:00Z', '2026-01-01T24:00:00Z'],
    ...['2026-01-01T00:60:00Z', '2026-01-01T00:00:60Z', '2026-01-01T00:00:61Z'],
    // Ten digits of a second, and a point without digits.
    ...['2026-01-01T00:00:00.0000000001Z', '2026-01-01T00:00:00.Z'],
    ...['2026-01-01T00:00:00%2B24:00', '2026-01-01T00:00:00%2B00:60'],
    ...['2026-01-01T00:00:00[UTC]', '2026-01-01T00:00:00BRT'],
    ...['10000-01-01T00:00:00Z', '26-01-01T00:00:00Z', '0000-01-01T00:00:00Z'],
    // Outside the years 1 to 9999 by their offsets.
    ...['-0001-01-01T00:00:00Z', '0001-01-01T00:00:00%2B01:00', '9999-12-31T23:59:59-01:00'],
    ...['%202026-01-01T00:00:00Z', '2026-01-01T00:00:00Z%0A', '2026-01-01T00:00:00Z%00'],
    ...['%D9%A2026-01-01T00:00:00Z', "2026-01-01T00:00:00Z'%20or%201=1"],
  ],
};

/** The values of each parameter that the OpenAPI document has. */
export const parameters: Readonly<Record<string, Values>> = {
  limit: {
    accepted: ['1', '2', '00005', '25', '100'],
    refused: [...noNumbers, '0', '000', '1001', '2147483648'],
  },
  // Without a cursor, no response waits.
  wait: { accepted: ['0', '1', '30'], refused: [...noNumbers, '31'] },
  // `purchase-changes.test.ts` has the cursors of the change feed.
  cursor: { accepted: [], refused: [''] },
  group_limit: { accepted: ['1', '10', '50'], refused: [...noNumbers, '0', '51'] },
  min_value_in_cents: whole,
  max_value_in_cents: whole,
  status: {
    accepted: [
      ...['any', 'pending', 'authorized', 'paid', 'abandoned', 'refunded', 'voided'],
      ...['paid,pending', 'voided%2Cpaid,authorized'],
    ],
    refused: [
      ...['', 'PAID', 'paid%20', 'open', 'null', 'toString', '__proto__', 'paid,open', 'paid,paid'],
      ...[
        'any,paid',
        'paid,any',
        'any,any',
        ',',
        'paid,',
        ',paid',
        'paid,,pending',
        'paid, pending',
      ],
    ],
  },
  platform: {
    accepted: [
      ...['shopify', 'nuvemshop', 'woocommerce', 'bling', 'facebook', 'popup'],
      ...['shopify,bling', 'popup,shopify,facebook,bling,woocommerce,nuvemshop'],
    ],
    refused: ['', 'any', 'Shopify', 'magento', 'shopify,magento', 'bling,bling', 'constructor'],
  },
  group_by: {
    accepted: [
      ...['status', 'platform', 'currency'],
      ...['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'],
    ],
    refused: ['', 'Day', 'decade', 'payment_status', 'customer_id', 'toString', 'status;platform'],
  },
  // Of time series and of cohorts.
  interval: { accepted: ['week', 'month', 'quarter'], refused: ['', 'decade', 'Week'] },
  periods: { accepted: ['1', '60'], refused: [...noNumbers, '0', '61'] },
  measures: {
    accepted: ['purchase_count', 'customer_count,new_customer_count,discount_in_cents'],
    refused: ['', 'revenue', 'customer_count,', 'customer_count,customer_count', 'toString'],
  },
  // A report has to have the measure or the dimension.
  order_by: {
    accepted: ['purchase_count', '-customer_count'],
    refused: ['', '-', '--purchase_count', '%2Bpurchase_count', 'discount_in_cents', 'month', 'id'],
  },
  compare_to: {
    accepted: ['previous_period', 'previous_month', 'previous_year', 'previous_year_weekdays'],
    refused: ['', 'previous', 'previous_week', 'previous_year,previous_month', 'toString'],
  },
  expand: { accepted: ['customer'], refused: ['', 'customers', 'customer,customer', 'toString'] },
  timezone: {
    accepted: ['UTC', 'Etc%2FUTC', 'Etc/GMT+3', 'Etc/GMT%2B3', 'America/Sao_Paulo', 'brazil/east'],
    refused: ['Mars/Phobos', '', '%2B03:00', '-3', 'BRT', 'UTC%20', 'America/Sao%20Paulo', 'local'],
  },
  week_start: {
    accepted: ['monday', 'sunday', 'saturday'],
    refused: ['', 'Sunday', 'friday', '7', 'monday,sunday'],
  },
  format: { accepted: ['csv', 'ndjson', 'arrow'], refused: ['', 'CSV', 'xml', 'text/csv'] },
  separator: { accepted: ['comma', 'semicolon'], refused: ['', ',', ';', 'tab', 'Comma'] },
  decimal: { accepted: ['point', 'comma'], refused: ['', '.', ',', 'semicolon'] },
  amounts: { accepted: ['cents', 'units'], refused: ['', 'unit', '100', 'Units'] },
  // `every-endpoint.test.ts` has the values that each list accepts.
  sort: { accepted: [], refused: ['', 'Updated', 'created', 'name', 'toString'] },
  customer_id: idValues('cus', 'pur'),
  tag_id: idValues('tag', 'cus'),
  segment_id: idValues('seg', 'cus'),
  ids: {
    accepted: ['cus_nobody', 'cus_a,cus_b'],
    refused: ['', 'cus_a,', 'pur_a', Array(101).fill('cus_a').join()],
  },
  is_subscribed: { accepted: ['true', 'false'], refused: ['', '1', 'TRUE', 'yes'] },
  created_since: dates,
  created_until: dates,
  updated_since: dates,
  total_orders_min: whole,
  total_orders_max: whole,
  total_spent_min_in_cents: whole,
  total_spent_max_in_cents: whole,
  first_purchase_since: dates,
  first_purchase_until: dates,
  last_purchase_since: dates,
  last_purchase_until: dates,
  email: { accepted: ['a@b.example', '%25', 'a+b@c.example'], refused: ['', 'a%00b'] },
  phone: {
    accepted: ['123', '1'.repeat(32), '%2B55%20(11)%201'],
    refused: ['', '12', '1'.repeat(33), 'abc', '%25%25%25', '___', '%D9%A1%D9%A2%D9%A3'],
  },
  q: {
    accepted: ['a', 'a'.repeat(256), '%F0%9F%9B%92'.repeat(256), '%25'],
    refused: ['', 'a'.repeat(257), '%00'],
  },
  order_number: {
    accepted: ['1001', '%231001', 'A-1%2F2'],
    refused: ['', 'a'.repeat(257), 'a%00b'],
  },
  // Shops may store other texts, which tests of the filters have.
  currency: {
    accepted: ['BRL', 'brl', 'uSd', 'EUR&currency=JPY'],
    refused: [
      ...several('currency').refused,
      ...['R$', 'XYZ', 'BRL,USD', 'BR', 'brl%20', 'BRL&currency=brl'],
    ],
  },
  without: {
    accepted: [
      ...['status', 'platform', 'currency', 'shipping_status'],
      ...['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'],
      ...['coupon', 'utm_term,status,coupon'],
    ],
    refused: [
      ...['', 'any', 'day', 'payment_status', 'customer_id', 'coupons', 'UTM_TERM', 'toString'],
      ...['utm_term,', 'utm_term,day', 'utm_term,utm_term', 'utm_term;status'],
    ],
  },
  coupon: several('coupon'),
  not: {
    accepted: [
      ...['utm_source:google', 'utm_term::', 'coupon:a,b:c', 'status:paid', 'platform:bling'],
      ...['currency:brl', 'shipping_status:shipped', `utm_term:${'é'.repeat(256)}`],
      ...['utm_source:a&not=utm_source:b', 'utm_source:%0A%20'],
    ],
    refused: [
      ...['', 'google', 'utm_source', 'utm_source:', ':google', 'utm_source=google', 'day:1'],
      ...['UTM_SOURCE:google', 'status:any', 'status:payed', 'platform:magento', 'customer:1'],
      ...['toString:1', 'utm_source:a%00', `utm_term:${'a'.repeat(257)}`],
      ...['utm_source:a&not=utm_source:a', 'currency:XYZ', 'currency:BRL&not=currency:BTC'],
    ],
  },
  customer_type: {
    accepted: ['new', 'returning'],
    refused: ['', 'any', 'New', 'new,returning', 'repeat', 'toString'],
  },
  weekday: {
    accepted: ['1', '7', '7,1', '1,2,3,4,5,6,7'],
    refused: ['', '0', '8', '01', 'monday', '1,', '1,1', '1;2', '1,8', '-1'],
  },
  hour_of_day: {
    accepted: ['0', '23', '23,0', '9,10,11'],
    refused: ['', '24', '09', '9-17', '9,', '9,9', '9:00', '-1'],
  },
  utm_source: several('utm_source'),
  utm_medium: several('utm_medium'),
  utm_campaign: several('utm_campaign'),
  utm_content: several('utm_content'),
  utm_term: several('utm_term'),
};
