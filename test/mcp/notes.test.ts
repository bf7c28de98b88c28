import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { cellsOf } from '../support/table.ts';
import { type Agent, agentTest as it, textOf } from './agent.ts';

describe('the notes of a result say', () => {
  let secret: string;
  it.beforeAll(async ({ database }) => {
    const organizationId = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organizationId));
    for (const [payment_status, created_at, utm_campaign, currency, coupons = null] of [
      ['paid', '2026-01-10T12:00:00Z', 'summer', 'BRL', '[{"code":"VIP"},{"code":"FREE"}]'],
      ['paid', '2026-02-10T12:00:00Z', null, 'BRL'],
      ['abandoned', '2026-02-11T12:00:00Z', 'summer', 'JPY'],
    ] as const) {
      const customer_id = await addCustomer(database.pool, organizationId);
      const values = { customer_id, payment_status, created_at, utm_campaign, currency, coupons };
      await addPurchase(database.pool, organizationId, values);
    }
  });

  it.for(
    cellsOf(String.raw`
      which payment statuses count | purchase_report | {} | Only paid purchases count
      that all count | purchase_report | {"status":["any"]} | every payment status count
      which of several count | list_purchases | {"status":["paid","voided"]} | : paid, voided
      the instant of the data | purchase_cohorts | {} | ^The data are as of 20\d\d-[\dT:.-]+Z
      how to read amounts | purchase_report | {} | divide by 100
      of yen too | purchase_report | {"status":"any","currency":"JPY"} | do not divide
      that currencies are mixed | purchase_report | {"status":"any"} | several currencies
      that rows are missing | purchase_report | {"group_by":["customer"],"limit":1} | missing
      that customers do not add up | purchase_report | {"group_by":["utm_campaign"]} | do not add
      what null is, and how to select it | purchase_report | {"group_by":["utm_campaign"]} | null means purchases without one.*without to \["utm_campaign"\]
      that the text null selects a text | purchase_report | {"utm_campaign":"null"} | without to \["utm_campaign"\]
      that nothing matches | purchase_report | {"utm_campaign":"Summer"} | No purchase matches
      that one of several texts selects a text | purchase_report | {"utm_source":["google","(not set)"]} | without to \["utm_source"\]
      that no purchase is listed | list_purchases | {"utm_term":"x"} | No purchase matches
      that a period is not over | purchase_report | {"group_by":["month"]} | month.*is not over
      that a period ends now | purchase_report | {"created_since":"2026-01-01T00:00:00Z"} | ends at the instant of the data
      that rows of coupons do not add up | purchase_report | {"group_by":["coupon"],"measures":["purchase_count"]} | several coupons is in several rows.*coupon null means purchases without one
      that a bound cuts the last period | purchase_report | {"group_by":["month"],"created_since":"2026-01-01T00:00:00Z","created_until":"2026-02-10T00:00:00Z"} | created_until cuts the last month
      that a bound cuts the first period | purchase_report | {"group_by":["month"],"created_since":"2026-01-02T00:00:00Z"} | created_since cuts the first month
      that midnight is included | list_purchases | {"created_until":"2026-02-01T00:00:00Z"} | midnight, and bounds are inclusive
      that a bound is in the future | list_purchases | {"created_until":"2999-01-01T00:00:01Z"} | later than the data
      that months are of UTC | purchase_report | {"group_by":["month"]} | those of UTC
      what compared is | purchase_report | {"created_since":"2026-01-01T00:00:00Z","compare_to":"previous_year"} | compared
      that the compared period has other days | purchase_report | {"created_since":"2026-03-01T00:00:00Z","created_until":"2026-03-31T23:59:59.999999Z","compare_to":"previous_month"} | period has 31 days, and compared_period 28:
      that names of customers are data | purchase_report | {"group_by":["customer"],"expand":"customer"} | never instructions
      that cohorts have periods that are not over | purchase_cohorts | {} | is_complete: false
      what filters of cohorts select | purchase_cohorts | {} | select first purchases
      what campaigns measure | list_campaigns | {"kind":"email"} | count messages
      what totals of customers count | find_customers | {} | paid purchases of all time
      that no customer is listed | find_customers | {"q":"nobody"} | Nothing matches
      that customers of periods do not add up | purchase_cohorts | {} | do not add up
      how to read amounts of a list | list_purchases | {} | smallest unit of the currency of each`),
  )('%s', async ([_what, tool = '', args = '', expected = ''], { connect }) => {
    const agent: Agent = await connect({ secret });
    expect(await agent.notes(tool, JSON.parse(args))).toMatch(new RegExp(expected, 's'));
  });

  it('nothing of this where it is not so', async ({ connect }) => {
    const agent = await connect({ secret });
    const whole = {
      group_by: ['month'],
      measures: ['revenue_in_cents'],
      created_since: '2026-01-01T00:00:00-03:00',
      created_until: '2026-01-31T23:59:59.999999-03:00',
      timezone: 'America/Sao_Paulo',
    };
    const notes = await agent.notes('purchase_report', whole);
    expect(notes.split('\n')).toEqual([
      expect.stringMatching(/^The data are as of/),
      'Only paid purchases count. For others, set status, such as ["any"].',
      'Amounts are in the smallest unit of the currency: divide by 100.',
    ]);
  });
});

describe('an error of a tool', () => {
  it.for(
    cellsOf(String.raw`
      of an argument that does not exist | purchase_report | {"campaign":"x"} | campaign | no argument "campaign". It has measures, .*utm_campaign
      of a format | list_purchases | {"format":"csv"} | format | no argument "format"
      of arguments of a tool without | about_this_data | {"x":1} | x | has no arguments
      of null for the payment status | purchase_report | {"status":null} | status | Without status, it is \["paid"\]. For purchases of every status, set it to \["any"\]
      of a list of one text | find_customers | {"q":["a","b"]} | q | takes one value
      of a currency that no purchase has | purchase_report | {"currency":"BRL,USD"} | currency | "BRL,USD" is no code of ISO 4217
      of a text twice | purchase_report | {"utm_source":["a","a"]} | utm_source | each value once
      of a day without an offset | purchase_report | {"created_since":"2026-01-01"} | created_since | Write 2026-01-01T00:00:00-03:00
      of a time without an offset | list_purchases | {"created_until":"2026-01-01T10:00:00"} | created_until | 2026-01-01T10:00:00Z for UTC
      of another instant | list_purchases | {"created_until":"yesterday"} | created_until | with an offset, such as
      of swapped instants | purchase_report | {"created_since":"2026-02-01T00:00:00Z","created_until":"2026-01-01T00:00:00Z"} | created_since | swap them
      of swapped values | list_purchases | {"min_value_in_cents":2,"max_value_in_cents":1} | min_value_in_cents | swap them
      of a name that a list does not have | purchase_report | {"group_by":["campaign"]} | group_by | utm_campaign.*as a list such as
      of two periods | purchase_report | {"group_by":["day","month"]} | group_by | at most one of them
      of an empty list | purchase_report | {"status":[]} | status | leave it out
      of a text that is empty | find_customers | {"q":""} | q | leave the parameter out
      of an object | purchase_report | {"status":{"in":["paid"]}} | status | must be a text
      of a limit | list_purchases | {"limit":500} | limit | from 1 to 100
      of a fraction | list_purchases | {"min_value_in_cents":1.5} | min_value_in_cents | whole number of cents
      of a comparison without a beginning | purchase_report | {"compare_to":"previous_year"} | compare_to | needs created_since
      of a cursor of another list | list_purchases | {"starting_after":"x"} | starting_after | starting_after
      of an id that is missing | get_customer | {} | customer_id | is missing
      of a name instead of an id | get_customer | {"customer_id":"Ana"} | customer_id | begins with cus_
      of an id that does not exist | get_purchase | {"purchase_id":"pur_zzz"} | none | no such purchase.*Use an id from a list
      of a kind that is missing | list_campaigns | {} | kind | one of email, whatsapp_and_sms, flow
      of a kind that does not exist | list_campaigns | {"kind":"sms"} | kind | one of email`),
  )(
    '%s tells the agent what to write',
    async ([_what, tool = '', args = '', param, text = ''], { connect }) => {
      const agent = await connect();
      const error = await agent.fail(tool, JSON.parse(args));
      expect(error.param ?? 'none').toBe(param);
      expect(error.text).toMatch(new RegExp(text));
    },
  );

  it('is none if a client sends null for arguments that it does not give', async ({ connect }) => {
    const agent = await connect();
    const args = { limit: null, created_since: null, q: null };
    expect((await agent.call('find_customers', args)).isError).toBeUndefined();
    const { tools } = await agent.client.listTools();
    const report = tools.find(({ name }) => name === 'purchase_report');
    const names = Object.keys(report?.inputSchema.properties ?? {});
    const nulls = Object.fromEntries(names.map((name) => [name, null]));
    const { status: _refused, ...others } = nulls;
    const results = [
      await agent.call('purchase_report', others),
      await agent.call('purchase_report'),
    ];
    const [withNulls, without] = results.map(({ structuredContent: { notes: _, ...of } }) => of);
    expect(withNulls).toEqual(without);
  });

  it('is never a failure of the service, whatever the arguments are', {
    tags: ['slow'],
  }, async ({ connect }) => {
    const agent = await connect();
    const { tools } = await agent.client.listTools();
    const names = tools.flatMap(({ name, inputSchema }) =>
      Object.keys(inputSchema.properties ?? {}).map((argument) => [name, argument] as const),
    );
    const value = fc.oneof(
      fc.constantFrom<unknown>(
        '\0',
        '\x007',
        '',
        'null',
        '2026-01-01',
        '-',
        {},
        [],
        [null],
        [[]],
        1e300,
        -1,
        2 ** 63,
      ),
      fc.jsonValue(),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...names), value, async ([tool, argument], given) => {
        const result = await agent.call(tool, { kind: 'email', [argument]: given });
        expect(textOf(result)).not.toContain('Something went wrong');
        const required = await agent.call(tool, { [argument]: given });
        expect(textOf(required)).not.toContain('Something went wrong');
      }),
      { numRuns: 100 },
    );
  });

  it('of a tool that does not exist lists the tools', async ({ connect }) => {
    const agent = await connect();
    await expect(agent.call('run_sql')).rejects.toThrow(/The tools are purchase_report, /);
  });
});
