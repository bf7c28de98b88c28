import { describe, expect } from 'vitest';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser } from './browser.ts';
import { test as it, january } from './opened-page.ts';

describe.runIf(hasBrowser)('the page', () => {
  it('has a name and a role for everything that a screen reader reads, and says what changes', {
    tags: ['slow'],
  }, async ({ open, database, worker }) => {
    const organizationId = await addOrganization(database.pool, 'Livraria Ipê');
    const customer_id = await addCustomer(database.pool, organizationId);
    for (const [index, payment_status] of ['paid', 'pending'].entries()) {
      const created_at = `2026-01-1${index}T12:00:00Z`;
      const values = { customer_id, payment_status, created_at, currency: 'BRL' };
      await addPurchase(database.pool, organizationId, { ...values, order_number: `${index}` });
    }
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    const { page, context, enter } = await open(january);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await enter(secret);
    const status = page.locator('#status');
    expect(await status.getAttribute('role')).toBe('status');
    expect(await status.textContent()).toBe('2 purchases');
    await page.getByText('Requests of this view').click();
    const snapshot = await page.locator('main').ariaSnapshot();
    // Hundreds of time zones, and what differs in each run.
    const lines = snapshot
      .replace(/^ *- option (?!.*\[selected\]).*\n/gm, '')
      .replace(/(?<=Data as of ).+(?=\n)/, '…')
      .replace(/cus_\w+/g, 'cus_…')
      .replace(/(?<=\/\/127\.0\.0\.1:)\d+/g, '…');
    expect(lines).toMatchInlineSnapshot(`
      "- main:
        - heading "Purchases" [level=1]
        - region "Period and filters":
          - group "Period":
            - text: Period
            - radio "7 days"
            - text: 7 days
            - radio "30 days"
            - text: 30 days
            - radio "90 days"
            - text: 90 days
            - radio "This month"
            - text: This month
            - radio "This year"
            - text: This year
            - radio "All time"
            - text: All time
            - radio "Custom" [checked]
            - text: Custom
          - text: From
          - textbox "From": 2026-01-01
          - text: to
          - textbox "to": 2026-01-31
          - button "Add filter"
          - text: Time zone
          - combobox "Time zone":
            - option "UTC" [selected]
        - paragraph: Jan 1 – 31, 2026
        - paragraph: Data as of …
        - button "Refresh"
        - region "Totals":
          - button "Revenue R$2.00 none before" [pressed]
          - button "Purchases 2 none before"
          - button "Customers 1 none before"
          - button "Average ticket R$1.00 none before"
        - region "Revenue over time":
          - heading "Revenue over time" [level=2]
          - list "Lines":
            - listitem: This period
            - listitem: Previous period
          - text: by
          - combobox "Revenue over time by":
            - option "Automatic" [selected]
          - button "CSV Revenue over time": CSV
          - group: Show as a table
        - region "Ranking":
          - heading "Ranking" [level=2]
          - text: by
          - combobox "Ranking by":
            - option "UTM source" [selected]
          - button "CSV Ranking": CSV
          - region "Groups":
            - table:
              - rowgroup:
                - row "UTM source Revenue Share Purchases Avg. ticket":
                  - columnheader "UTM source"
                  - columnheader "Revenue"
                  - columnheader "Share"
                  - columnheader "Purchases"
                  - columnheader "Avg. ticket"
              - rowgroup:
                - row "No UTM source R$2.00 100% 2 R$1.00":
                  - rowheader "No UTM source"
                  - cell "R$2.00"
                  - cell "100%"
                  - cell "2"
                  - cell "R$1.00"
        - region "Latest purchases":
          - heading "Latest purchases" [level=2]
          - button "CSV Latest purchases": CSV
          - region "Purchases":
            - table:
              - rowgroup:
                - row "Purchase and customer Status Value":
                  - columnheader "Purchase and customer"
                  - columnheader "Status"
                  - columnheader "Value"
              - rowgroup:
                - row "1 Jan 11, 2026, 12:00 PM cus_… pending R$1.00":
                  - cell "1 Jan 11, 2026, 12:00 PM cus_…":
                    - text: 1 Jan 11, 2026, 12:00 PM
                    - link "cus_…":
                      - /url: /app/customers/cus_…
                  - cell "pending"
                  - cell "R$1.00"
                - row "0 Jan 10, 2026, 12:00 PM cus_… paid R$1.00":
                  - cell "0 Jan 10, 2026, 12:00 PM cus_…":
                    - text: 0 Jan 10, 2026, 12:00 PM
                    - link "cus_…":
                      - /url: /app/customers/cus_…
                  - cell "paid"
                  - cell "R$1.00"
        - region "Download":
          - heading "Download" [level=2]
          - paragraph: All purchases of this period with these filters, as one file.
          - button "Parquet Download": Parquet
          - button "CSV Download": CSV
          - status
          - group:
            - text: Requests of this view, for
            - code: curl
            - heading "Totals and ranking" [level=3]
            - 'button "Copy the request: Totals and ranking"': Copy
            - code: "curl -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases/stats?group_by=utm_source&group_limit=10&timezone=UTC&created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z\\""
            - heading "Time series" [level=3]
            - 'button "Copy the request: Time series"': Copy
            - code: "curl -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases/timeseries?interval=day&timezone=UTC&created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z\\""
            - heading "Latest purchases" [level=3]
            - 'button "Copy the request: Latest purchases"': Copy
            - code: "curl -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases?limit=10&created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z\\""
            - heading "All purchases, as Parquet" [level=3]
            - 'button "Copy the request: All purchases, as Parquet"': Copy
            - code: "curl -o purchases.parquet -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases/export?created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z&format=parquet\\"""
    `);

    await page.getByRole('button', { name: 'Copy the request: Time series' }).click();
    await page.getByText('Copied', { exact: true }).first().waitFor();
    expect(await status.textContent()).toBe('Copied');
    const line = await page.locator('#requests pre').nth(1).textContent();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(line);
  });
});
