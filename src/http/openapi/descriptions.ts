/**
 * What each parameter does, by name: parameters of one name mean the same
 * wherever they appear.
 */
export const parameterDescriptions: Readonly<Record<string, string>> = {
  limit: 'How many items a page has at most.',
  starting_after:
    'The `id` of the last item of the previous page. Continue while `has_more` is `true`.',
  sort: 'Highest or most recent first. Without it, newest first (flows and campaigns: most recently updated first, with and without it).',
  customer_id: 'The customer; on purchase lists and statistics, purchases of this customer.',
  purchase_id: 'The purchase.',
  segment_id: 'The segment; on the customer list, customers in this segment.',
  tag_id: 'The tag; on the customer list, customers that carry this tag.',
  flow_id: 'The flow.',
  email_campaign_id: 'The email campaign.',
  template_campaign_id: 'The template campaign.',
  status: 'Payment status of the purchase; `any` is no filter.',
  platform: 'The platform that the purchase came from.',
  created_since: 'Created at or after this instant. Without an offset it is UTC.',
  created_until: 'Created at or before this instant. Without an offset it is UTC.',
  updated_since: 'Updated at or after this instant. Without an offset it is UTC.',
  min_value_in_cents: 'Purchases of at least this value.',
  max_value_in_cents: 'Purchases of at most this value.',
  utm_source: "Exactly this value of the order's `utm_source`.",
  utm_medium: "Exactly this value of the order's `utm_medium`.",
  utm_campaign: "Exactly this value of the order's `utm_campaign`.",
  utm_content: "Exactly this value of the order's `utm_content`.",
  utm_term: "Exactly this value of the order's `utm_term`.",
  group_by:
    'Ranks the matching purchases by one dimension, highest revenue first. `status` is the payment status, `day` the day in `timezone`.',
  group_limit:
    'How many groups are returned at most; `groups_truncated` says whether there were more.',
  timezone:
    'What `group_by=day` takes for a day, summer time included: the IANA name of a time zone; without effect otherwise. Of instants before 1900 or after 2099 it is the day in UTC. An addition.',
  is_subscribed: 'Customers that are, or are not, subscribed.',
  email: 'Exactly this address, upper and lower case aside.',
  phone:
    'The number, with or without its country code, whether the stored number has it or not; only digits are compared. Numbers of fewer than 8 digits match as a whole only.',
  format:
    'The format of the answer, for tools that cannot set headers; it goes before `Accept`. `csv_excel` is CSV that begins with a byte order mark, with an apostrophe before text that a spreadsheet would take for a formula. An addition.',
  'X-Min-Data-As-Of':
    'An addition: the answer must show the data of this instant, such as `2026-01-31T14:05:09.123456Z`, or later. The service hurries and waits a few seconds for that, and otherwise answers `409`. After a write, send the instant at which its commit had returned, by the clock of the operational database. Without an offset it is UTC.',
  q: 'Text that the name, email or phone (of segments: name or description) contains, case and accents aside. Text without a visible character finds nothing.',
};

/** Parameters that go beyond the specification, wherever they appear. */
export const additionalParameters: ReadonlySet<string> = new Set(['format', 'timezone']);

export const tagDescriptions: Readonly<Record<string, string>> = {
  Identity: 'Who asks.',
  Customers: 'People who buy, or may.',
  Segments: 'Groups of customers.',
  Purchases: 'Orders from all integrations, and statistics over them.',
  Tags: 'Labels that customers carry.',
  Attributes: 'Definitions of custom attributes.',
  Flows: 'Automation flows.',
  'Email campaigns': 'Campaigns by email.',
  'Template campaigns': 'Campaigns by WhatsApp or SMS.',
  Health: 'For what watches the service; without a key.',
};

export const introduction = `
A read-only API over one organization's customers, purchases and campaigns. The
organization is the key's; a key is sent as \`Authorization: Bearer <API_KEY>\`.

- **Money** is an integer number of cents. **Times** are UTC.
- **Numbers** are written to the last digit: large sums, and values of coupons and
  attributes as they are stored. Some have more digits than a double.
- **Fields without a value** are left out.
- **Lists** are \`data\` and \`has_more\`; pass the last \`id\` as \`starting_after\`,
  or follow the header \`Link\` while there is one.
- **Parameters** that are unknown, repeated, empty or malformed are refused with \`422\`
  and named in \`error.param\`: a typing error never changes a total. A \`starting_after\`
  that is no cursor of the list, and a query that cannot be decoded, are refused with \`400\`.
- **Conditional requests**: single resources and statistics carry an \`ETag\`; send
  it as \`If-None-Match\`, and an unchanged answer is \`304\` without a body.
- **Compression**: \`br\` and \`gzip\`, as \`Accept-Encoding\` asks, with a weak \`ETag\`;
  \`If-None-Match\` takes either. An addition.
- **HEAD** is answered like GET, without the body. An addition.
- **Formats**: purchase lists and statistics also come as CSV, NDJSON and Arrow, by
  \`Accept\` or by \`format\`; errors are JSON always. Rows are those of the JSON answer,
  without \`object\` and \`attributed_flow_ids\` where rows are no objects; \`coupons\` is
  JSON text in CSV, Arrow and Parquet. Statistics come as the rows of \`groups\`, without
  \`group_by\` as one row of totals. \`X-Has-More\` says what \`has_more\`, or
  \`groups_truncated\`, says.
- **The export** is a file, CSV where nothing else is asked for, NDJSON, Arrow or Parquet,
  with all purchases that match; they come in no promised order. An export that fails on the
  way breaks the connection. A few may run at the same time; more are answered \`429\`.
- **Freshness**: purchase answers say in \`X-Data-As-Of\` which instant they show.
  Send \`X-Min-Data-As-Of\`, and they show that instant or a later one.

To try it here: *Authorize* with a key, open an operation and *Execute* it; the
page shows the answer and the \`curl\` line that asks for it.
`.trim();
