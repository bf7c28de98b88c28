import { trackingLabels } from '../../domain/purchase.ts';
import { pitfalls, questions } from './questions.ts';

const describeLabel = (name: string): string =>
  'Exact. A purchase has any of these texts. Upper and lower case differ. Several texts are several parameters ' +
  `(an addition), such as \`${name}=a&${name}=b\`, and a comma is part of a text. The text \`null\` is no missing value: for ` +
  `purchases without one, send \`without=${name}\`. On lists, an addition.`;

const ofPaidPurchases =
  'A customer without a paid purchase matches no such bound. Without an offset it is UTC. An addition.';
const ofTotalSpent =
  'Of all time, in the smallest unit of one currency, as in the response. An addition.';

/**
 * The description of each parameter, unless the schema of a route has another one. The first sentence says what
 * the parameter is, and stands alone in the tools of /mcp.
 */
export const parameterDescriptions: Readonly<Record<string, string>> = {
  limit: 'The size of a page. `has_more` says whether there are more.',
  starting_after:
    'The last `id` of the page before. Better, its `X-Next-Cursor` (an addition), which is valid after deletions too. Continue while `has_more` is `true`.',
  sort: 'Highest or most recent first. Without it, newest first. `total_spent` is `total_spent_in_cents`, which has one currency unless the shop writes it otherwise. Flows and campaigns are most recently updated first, with and without it.',
  customer_id:
    'The id of a customer. On purchase lists and statistics, purchases of this customer.',
  purchase_id:
    'The id of a purchase. The number of an order is `order_number`, which `/v1/purchases/search` finds.',
  segment_id: 'The id of a segment. On the customer list, customers in this segment.',
  tag_id: 'The id of a tag. On the customer list, customers that carry this tag.',
  flow_id: 'The id of a flow.',
  email_campaign_id: 'The id of an email campaign, which is no `utm_campaign`.',
  template_campaign_id: 'The id of a template campaign, which is no `utm_campaign`.',
  status:
    'Payment statuses. `any` is all, also abandoned and refunded. Without it, all count too: for sales, send `paid`. Several have commas between them (an addition), such as `paid,authorized`; `any` stands alone. It is `payment_status` of a purchase, not `status`.',
  platform: 'Sales platforms. Several have commas between them (an addition).',
  created_since:
    'At or after this instant. Without an offset it is UTC, whatever `timezone` is: midnight in São Paulo is `2026-01-31T00:00:00-03:00`.',
  created_until:
    'At or before this instant: a day ends at 23:59:59.999999. Midnight of the next day would include its first instant. Without an offset it is UTC, whatever `timezone` is.',
  updated_since:
    'Updated at or after this instant. To poll, send the `X-Data-As-Of` of the last poll. Without an offset it is UTC.',
  min_value_in_cents:
    'At least this value. It is in the smallest unit of the currency: JPY 1,000 is `1000`, and BRL 10.00 too: with several currencies, set `currency`.',
  max_value_in_cents:
    'At most this value. It is in the smallest unit of the currency: JPY 1,000 is `1000`, and BRL 10.00 too: with several currencies, set `currency`.',
  currency:
    'Codes such as `BRL`. A purchase has any of them. Codes of ISO 4217 are found in any case. Several are several parameters: `currency=BRL&currency=USD`. Another text is compared exactly, and refused if no purchase has it. An addition.',
  without:
    'No value of these. `without=utm_campaign` finds those of the group `null`, which `utm_campaign=null` does not. Several names, with commas between them, find purchases that have a value of none of them. `status` is the payment status. `coupon` finds purchases without the code of a coupon. An addition.',
  coupon:
    'Codes of coupons. A purchase has any of them. Upper and lower case differ. Several codes are several parameters: `coupon=a&coupon=b`. Purchases without one are found by `without=coupon`. An addition.',
  not: 'Not this value, as `utm_source:google`: another or none. A value is a name of `without`, a colon and an exact text. Several values are several parameters, of which a purchase has none: `not=utm_source:google&not=utm_campaign:test`. An addition.',
  customer_type:
    'First purchases, or others. A first one is that of a customer with the statuses of `status`, whatever other filters are: `returning` has later purchases. Reports, statistics and time series have it. An addition.',
  weekday: '1 (Monday) to 7, in `timezone`. Several have commas between them. An addition.',
  hour_of_day:
    '0 to 23, in `timezone`. Several have commas between them: `9,10` is from 09:00 until 10:59. An addition.',
  ...Object.fromEntries(trackingLabels.map((name) => [name, describeLabel(name)])),
  group_by:
    'Ranks the matching purchases by one dimension, highest revenue first. The group `null` has the purchases without a value. `status` is the payment status, `day` the day in `timezone`.',
  group_limit:
    'How many groups or series are returned at most; `groups_truncated` or `series_truncated` says whether there were more. Totals cover all groups.',
  interval:
    'The length of the periods. They begin with those of `timezone`, so the first and the last one may be cut by a bound or the present. `auto` chooses the shortest one with at most 300 periods. An addition.',
  timezone:
    'The zone of local times, such as `America/Sao_Paulo`. It is the IANA name of that of periods, `weekday` and `hour_of_day`. It has daylight saving time, no effect on `created_since` and `created_until`, and none on other statistics. With `format=csv_excel`, instants are local time of it, such as `2026-01-31 11:05:09`, if it is given; lists and exports have it for this and for the two filters alone. Before 1900 and after 2099, days are in UTC. An addition.',
  week_start: 'The first day of weeks. Without it, Monday. An addition.',
  measures:
    'Sums and counts: `repeat_customer_count` of customers with at least two purchases in the row; `median_value_in_cents` and `p90_value_in_cents` are the smallest value that half and nine tenths of the purchases do not exceed. Several have commas between them. `customer_count` counts distinct customers of a row: rows do not add up. `new_customer_count` counts customers whose first purchase is in the row, and `returning_customer_count` those with a later one in it. `revenue_in_cents` is the sum of `purchase_value_in_cents`; the other amounts leave out purchases without a value. An addition.',
  order_by:
    'A measure or dimension; `-` before it is descending. Without it, the period ascending, or the first measure descending. An addition.',
  periods:
    'How many periods each cohort has. That of the first purchase is the first of them. An addition.',
  compare_to:
    'Adds figures of an earlier period; needs `created_since`. `previous_period` is the time before, `previous_month` and `previous_year` the same local dates (not by week), `previous_year_weekdays` 364 days earlier. Without `created_until`, the period ends at the instant of the data. An addition.',
  expand:
    'Adds name, email and phone to rows of `group_by=customer`. They are `customer_name`, `customer_email` and `customer_phone`, those of now, `null` without one. An addition.',
  is_subscribed: 'Subscribed or not. Without it, both.',
  ids: 'Customers with these ids. Up to 100, with commas between them. An addition.',
  total_orders_min:
    'At least so many paid purchases. They are those of all time and currencies. An addition.',
  total_orders_max:
    'At most so many paid purchases. They are those of all time and currencies. `0` finds customers who never bought. An addition.',
  total_spent_min_in_cents: `At least this \`total_spent_in_cents\`. ${ofTotalSpent}`,
  total_spent_max_in_cents: `At most this \`total_spent_in_cents\`. ${ofTotalSpent}`,
  first_purchase_since: `First paid purchase at or after this instant. ${ofPaidPurchases}`,
  first_purchase_until: `First paid purchase at or before this instant. ${ofPaidPurchases}`,
  last_purchase_since: `Last paid purchase at or after this instant. ${ofPaidPurchases}`,
  last_purchase_until: `Last paid purchase at or before this instant: none since. ${ofPaidPurchases}`,
  email: 'Exactly this address, case-insensitive. Parts of an address are found by `q`.',
  phone:
    'Digits of the number or a part. Only digits are compared. A country code or a trunk zero may be missing on either side.',
  order_number:
    'Exactly this number, with or without `#` before it. Upper and lower case differ. An addition.',
  format:
    'The format of the response, for tools that cannot set headers; it overrides `Accept`. `csv_excel` is CSV with a byte order mark, and with an apostrophe before text that a spreadsheet would evaluate as a formula, or change to another number or date. An addition.',
  separator:
    'What separates the columns of `csv_excel`: `comma` (default), or `semicolon`, which Excel expects where the comma is the decimal mark. An addition.',
  decimal:
    'The decimal mark of `csv_excel`: `point` (default), or `comma`. Only `amounts=units` has decimals. An addition.',
  amounts:
    "Amounts of `csv_excel`: in `cents` (default), the smallest unit of the currency, or in `units` with the decimals of the row's currency, two without one. The names of columns then lack `_in_cents`. An addition.",
  'X-Min-Data-As-Of':
    'An addition: the response must show the data of this instant, such as `2026-01-31T14:05:09.123456Z`, or later. If newer data are not available within a few seconds, the response is `409`. After a write, send the instant at which its commit had returned, by the clock of the operational database. Without an offset it is UTC.',
  cursor:
    'The `next_cursor` of the last response, which clients do not interpret. Without it, the response has no changes and the cursor of the instant that it shows.',
  wait: 'If nothing has changed, the response waits up to so many seconds for a change.',
  q: 'Text in the name, email or phone. Case and accents are ignored. Of segments, in the name or description. It is one text, not several words. Of a number, digits are compared with those of phones, as by `phone`. Text without a visible character finds nothing.',
};

/** Parameters beyond the specification, in all routes. */
export const additionalParameters: ReadonlySet<string> = new Set([
  'format',
  'separator',
  'decimal',
  'amounts',
  'timezone',
  'week_start',
  'interval',
  'measures',
  'periods',
  'order_by',
  'compare_to',
  'expand',
  'cursor',
  'wait',
  'ids',
  'order_number',
  'total_orders_min',
  'total_orders_max',
  'total_spent_min_in_cents',
  'total_spent_max_in_cents',
  'first_purchase_since',
  'first_purchase_until',
  'last_purchase_since',
  'last_purchase_until',
  'currency',
  'without',
  'coupon',
  'not',
  'weekday',
  'hour_of_day',
  'customer_type',
]);

export const tagDescriptions: Readonly<Record<string, string>> = {
  Identity: 'The API key and its organization.',
  Customers: 'Contacts of the shop.',
  Segments: 'Groups of customers.',
  Purchases: 'Orders from all integrations, and statistics over them.',
  Tags: 'Labels of customers.',
  Attributes: 'Definitions of custom attributes.',
  Flows: 'Automation flows.',
  'Email campaigns': 'Campaigns by email.',
  'Template campaigns': 'Campaigns by WhatsApp or SMS.',
  Health: 'Health checks, without a key.',
};

export const introduction = `
A read-only API over one organization's customers, purchases and campaigns. The
organization is the key's; a key is sent as \`Authorization: Bearer <API_KEY>\`.

### Questions that shops ask every week

Dates and time zones are examples.

${questions.map(({ question, url, caveat }) => `- **${question}** ${caveat}\n\n  \`GET ${url}\``).join('\n')}

### What is easily misread

${pitfalls.map((rule) => `- ${rule}`).join('\n')}

### Rules of all routes

- **Money** is an integer number of the smallest unit of its currency (ISO 4217): \`1000\` is
  JPY 1,000, BRL 10.00 and KWD 1.000; without a currency it has two decimals. **Times** are UTC.
- **Numbers** are exact: large sums, and values of coupons and attributes, may have
  more digits than a double.
- **Fields without a value** are omitted.
- **Lists** are \`data\` and \`has_more\`; pass the last \`id\` as \`starting_after\`,
  or follow the header \`Link\` while there is one. The link, and the cursor in
  \`X-Next-Cursor\`, go on where the page ended, also if its last item changes or is deleted.
- **Parameters** that are unknown, empty or malformed are refused with \`422\`
  and named in \`error.param\`: a typing error never changes a total. So are repeated ones,
  except \`currency\`, \`coupon\` and \`utm_…\`, which then find purchases with any of up to 50 texts, and \`not\`. An invalid cursor in
  \`starting_after\`, and a query string that cannot be decoded, are refused with \`400\`.
- **Conditional requests**: single resources and statistics carry an \`ETag\`; send
  it as \`If-None-Match\`, and an unchanged response is \`304\` without a body.
- **Compression**: \`br\` and \`gzip\` by \`Accept-Encoding\`, with a weak \`ETag\`;
  \`If-None-Match\` accepts weak and strong tags. An addition.
- **HEAD** has the response of GET, without the body. An addition.
- **Formats**: lists of purchases and customers, and statistics, also come as CSV, NDJSON and
  Arrow, by \`Accept\` or by \`format\`; errors are always JSON. Rows are those of the JSON
  response, without \`object\` and \`attributed_flow_ids\` if rows are no objects; lists and
  objects such as \`coupons\` are JSON text in CSV, Arrow and Parquet. Statistics are the rows of \`groups\`, or one row of
  totals without \`group_by\`; time series have a row for each period of each series. Both
  have \`currency\` and \`mixed_currencies\` in every row.
  \`X-Has-More\` is the value of \`has_more\`, \`groups_truncated\` or
  \`series_truncated\`.
- **Exports** are files with all matching purchases or customers, in no particular order: CSV by
  default, NDJSON, Arrow or Parquet. An export that fails after its first byte closes the
  connection. The number of concurrent exports is limited; further ones are refused with \`429\`.
- **Freshness**: \`X-Data-As-Of\` of purchase responses is the instant of their data, and
  of the customer list one whose changes it has: the next \`updated_since\` of a poll.
  With \`X-Min-Data-As-Of\`, a response shows that instant or a later one.

Agents read the same by the Model Context Protocol at \`POST /mcp\`, with the same key, and begin
with \`/llms.txt\`. An addition.

To try the API here: *Authorize* with a key, open an operation and *Execute* it. The
page shows the response and the \`curl\` command.
`.trim();
