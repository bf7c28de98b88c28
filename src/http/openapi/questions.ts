/** What shops ask every week. Dates and time zones are examples. */
export const questions = [
  {
    question: 'How many customers are new, and how many returning?',
    url: '/v1/purchases/report?status=paid&group_by=month&measures=new_customer_count,returning_customer_count,customer_count&created_since=2026-01-01T00:00:00-03:00&timezone=America/Sao_Paulo',
    caveat: 'The present month is not over. Customers of months do not add up; `totals` has them.',
  },
  {
    question: 'What does each campaign bring, month by month?',
    url: '/v1/purchases/report?status=paid&group_by=month,utm_campaign&measures=revenue_in_cents,new_customer_count&created_since=2026-01-01T00:00:00-03:00&timezone=America/Sao_Paulo&limit=1000',
    caveat: 'Purchases without a campaign are the rows with `null`. See `rows_truncated`.',
  },
  {
    question: 'How is this month against the last one?',
    url: '/v1/purchases/report?status=paid&created_since=2026-11-01T00:00:00-03:00&compare_to=previous_month&timezone=America/Sao_Paulo',
    caveat: 'A month until now is compared with as many days of the last one.',
  },
  {
    question: 'Who are the best customers?',
    url: '/v1/purchases/report?status=paid&group_by=customer&measures=revenue_in_cents,purchase_count&created_since=2026-08-31T00:00:00-03:00&limit=20',
    caveat:
      'Amounts of several currencies are added if `mixed_currencies` is true: set `currency`.',
  },
  {
    question: 'Do customers come back?',
    url: '/v1/purchases/cohorts?status=paid&created_since=2026-01-01T00:00:00-03:00&timezone=America/Sao_Paulo',
    caveat:
      '`customer_count` of a period by that of its cohort. Periods with `is_complete: false` are not over.',
  },
] as const;

/** The rules without which a reader of the API gets wrong numbers. */
export const pitfalls = [
  '`status=paid` makes purchases sales. Without `status`, abandoned, refunded and voided ones count too.',
  'Amounts (`…_in_cents`) are in the smallest unit of their currency: `1000` is BRL 10.00, JPY 1,000 and KWD 1.000.',
  'Bounds are inclusive: a day ends at `23:59:59.999999`. Instants without an offset are UTC, whatever `timezone` is.',
  'Purchases without a campaign are found by `without=utm_campaign`. `utm_campaign=null` is the text null.',
  'Customers of rows, periods and pages do not add up.',
] as const;

/** A page for agents: https://llmstxt.org. */
export const llmsText = `# crm-data-service

> A read-only HTTP API over one shop's purchases, customers and campaigns. Every request under /v1 and to /mcp
> has an API key in the header \`Authorization: Bearer <API_KEY>\`, which determines the shop.

${pitfalls.map((rule) => `- ${rule}`).join('\n')}

## Questions that shops ask every week

Dates and time zones are examples.

${questions.map(({ question, url, caveat }) => `- [${question}](${url}): ${caveat}`).join('\n')}

## More

- \`POST /mcp\`: the Model Context Protocol (streamable HTTP), with tools for these questions
- [OpenAPI](/openapi.json): every route, parameter, field and error
- [Reference](/docs): the same for people
`;
