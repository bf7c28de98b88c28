import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { servedShop, servings } from './served-shop.ts';

describe.each(servings)('the time zone of statistics, %s,', (serving) => {
  const shop = servedShop(serving);
  const get = (query: string) => shop.get(`/v1/purchases/stats?${query}`);
  const stats = async (query: string) => {
    const response = await get(query);
    expect(response.statusCode, response.body).toBe(200);
    return response.json();
  };
  const daysOf = async (query: string) =>
    (await stats(`group_by=day&${query}`)).groups.map(({ key }: { key: string }) => key).sort();
  const store = async () => {
    // Before and after midnight in São Paulo, and at a change of the clocks of New York.
    for (const created_at of [
      '2026-03-08T02:59:59.999999Z',
      '2026-03-08T03:00:00Z',
      '2026-03-08T04:59:59Z',
      '2026-03-09T03:59:59Z',
      '2026-03-09T04:00:00Z',
    ]) {
      await shop.add({ created_at });
    }
    await shop.publish();
  };

  it('determines the days, and is UTC by default', async () => {
    await store();
    for (const query of ['', 'timezone=UTC', 'timezone=Etc%2FUTC']) {
      expect(await daysOf(query), query).toEqual(['2026-03-08', '2026-03-09']);
    }
    for (const name of ['America/Sao_Paulo', 'america/sao_paulo', 'Brazil/East']) {
      expect((await stats(`group_by=day&timezone=${name}`)).groups).toMatchObject([
        { key: '2026-03-08', purchase_count: 2 },
        { key: '2026-03-09', purchase_count: 2 },
        { key: '2026-03-07', purchase_count: 1 },
      ]);
    }
    const newYork = ['2026-03-07', '2026-03-08', '2026-03-09'];
    expect(await daysOf('timezone=America/New_York')).toEqual(newYork);
    const apia = ['2026-03-08', '2026-03-09'];
    expect(await daysOf('timezone=Pacific/Apia')).toEqual(apia);
  });

  it('changes only the days, and no other field or grouping', async () => {
    await store();
    const [plain, zoned] = [
      await stats('group_by=day'),
      await stats('group_by=day&timezone=Asia/Tokyo'),
    ];
    expect(Object.keys(zoned)).toEqual(Object.keys(plain));
    expect({ ...zoned, groups: null }).toEqual({ ...plain, groups: null });
    for (const query of ['', 'group_by=status']) {
      expect(await stats(`${query}&timezone=Asia/Tokyo`)).toEqual(await stats(query));
    }
  });
});
