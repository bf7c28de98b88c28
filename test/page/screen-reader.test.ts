import { describe, expect } from 'vitest';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser } from './browser.ts';
import { test as it } from './opened-page.ts';

describe.runIf(hasBrowser)('the page', () => {
  it('has a name and a role for everything that a screen reader reads, and says what changes', {
    tags: ['slow'],
  }, async ({ open, database, worker }) => {
    const organizationId = await addOrganization(database.pool, 'Livraria Ipê');
    const customer_id = await addCustomer(database.pool, organizationId);
    for (const [index, payment_status] of ['paid', 'pending'].entries()) {
      const created_at = `2025-01-1${index}T12:00:00Z`;
      const values = { customer_id, payment_status, created_at, currency: 'BRL' };
      await addPurchase(database.pool, organizationId, { ...values, order_number: `${index}` });
    }
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    // All periods of the cohort are over.
    const { page, context, enter } = await open(
      '/#period=custom&from=2025-01-01&to=2025-01-27&timezone=UTC&status=all',
    );
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await enter(secret);
    const status = page.locator('#status');
    expect(await status.getAttribute('role')).toBe('status');
    expect(await status.textContent()).toBe('2 orders');
    await page.getByText('Requests of this view').click();
    const snapshot = await page.locator('main').ariaSnapshot();
    // Hundreds of time zones, and what differs in each run.
    const lines = snapshot
      .replace(/^ *- option (?!.*\[selected\]).*\n/gm, '')
      .replace(/(?<=Updated at ).+(?=\n)/, '…')
      .replace(/(cus|pur)_\w+/g, '$1_…')
      .replace(/(?<=\/\/127\.0\.0\.1:)\d+/g, '…');
    await expect(lines).toMatchFileSnapshot('screen-reader.snapshot.yaml');

    await page.getByRole('button', { name: 'Copy the request: Time series' }).click();
    await page.getByText('Copied', { exact: true }).first().waitFor();
    expect(await status.textContent()).toBe('Copied');
    const line = await page.locator('#requests pre').nth(1).textContent();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(line);
  });
});
