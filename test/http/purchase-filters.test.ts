import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { customerUrl, servedShop, servings } from './served-shop.ts';

describe.each(servings)('the filters of purchases, %s,', (serving) => {
  const shop = servedShop(serving);

  /** The number of purchases in the lists and in the statistics. */
  async function found(query: string): Promise<number> {
    const list = (await shop.get(`/v1/purchases?${query}`)).json();
    const ofCustomer = (await shop.get(`${customerUrl(shop.customerId)}?${query}`)).json();
    const stats = (await shop.get(`/v1/purchases/stats?${query}`)).json();
    expect(ofCustomer.data).toStrictEqual(list.data);
    expect(stats.purchase_count).toBe(list.data.length);
    return list.data.length;
  }

  it('accept each payment status, and any for all', async () => {
    const statuses = ['pending', 'authorized', 'paid', 'abandoned', 'refunded', 'voided'];
    for (const [index, status] of statuses.entries()) {
      // The status of the order differs.
      await shop.add({ payment_status: status, status: statuses.at(index - 1) as string });
    }
    await shop.add();
    await shop.publish();
    for (const status of statuses) expect(await found(`status=${status}`), status).toBe(1);
    expect(await found('status=any')).toBe(7);
    expect(await found('status=paid,authorized')).toBe(2);
  });

  it('accept each platform', async () => {
    const platforms = ['shopify', 'nuvemshop', 'woocommerce', 'bling', 'facebook', 'popup'];
    for (const platform of [...platforms, 'elsewhere', null]) await shop.add({ platform });
    await shop.publish();
    for (const platform of platforms) {
      expect(await found(`platform=${platform}`), platform).toBe(1);
    }
    expect(await found('platform=popup,bling,shopify')).toBe(3);
  });

  it('bound the amount on both sides, inclusively', async () => {
    for (const cents of [0, 99, 100, 101]) await shop.add({ purchase_value_in_cents: cents });
    await shop.publish();
    expect(await found('min_value_in_cents=100')).toBe(2);
    expect(await found('max_value_in_cents=100')).toBe(3);
    expect(await found('min_value_in_cents=100&max_value_in_cents=100')).toBe(1);
    expect(await found('max_value_in_cents=0')).toBe(1);
    expect(await found('min_value_in_cents=0')).toBe(4);
  });

  it('compare the currency exactly', async () => {
    for (const currency of ['BRL', 'brl', 'USD', null]) await shop.add({ currency });
    await shop.publish();
    expect(await found('currency=BRL')).toBe(1);
    expect(await found('currency=EUR')).toBe(0);
    expect(await found('without=currency')).toBe(1);
  });

  it('find purchases without a value of a label', async () => {
    await shop.add({ utm_campaign: 'a', payment_status: 'paid', status: null });
    await shop.add({ utm_campaign: null, payment_status: 'paid' });
    await shop.add({ utm_campaign: null, payment_status: null, status: 'open' });
    await shop.publish();
    expect(await found('without=utm_campaign')).toBe(2);
    expect(await found('without=utm_campaign,status')).toBe(1);
    expect(await found('without=utm_campaign&status=paid,voided')).toBe(1);
    expect(await found('without=utm_campaign&utm_campaign=a')).toBe(0);
  });

  it('apply together', async () => {
    const match = { payment_status: 'paid', platform: 'popup', purchase_value_in_cents: 10 };
    await shop.add(match);
    await shop.add({ ...match, payment_status: 'voided' });
    await shop.add({ ...match, platform: 'bling' });
    await shop.add({ ...match, purchase_value_in_cents: 9 });
    await shop.publish();
    expect(await found('status=paid&platform=popup&min_value_in_cents=10')).toBe(1);
  });

  it('compare tracking values of statistics exactly', async () => {
    const names = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
    for (const name of names) {
      for (const value of ['Verão 1', 'verão 1', 'Verão', 'Verão 1 ', null]) {
        await shop.add({ [name]: value });
      }
    }
    await shop.publish();
    for (const name of names) {
      expect(await found(`${name}=${encodeURIComponent('Verão 1')}`), name).toBe(1);
    }
  });
});
