import { describe, expect } from 'vitest';
import { addKey } from '../support/shop.ts';
import { failedKeyLimit, measuredTest as it, rateLimit, uncached } from './measured-api.ts';

describe('the metrics of the API', () => {
  it('count requests and their duration by route pattern and status', { tags: ['slow'] }, async ({
    service,
    send,
  }) => {
    const series = (route: string, status: number) =>
      `crm_http_request_duration_seconds_count{route="${route}",status="${status}"}`;
    const routes = [
      ['/v1/me', '/v1/me', 200],
      ['/v1/customers/cus_nobody', '/v1/customers/:customer_id', 404],
      ['/v1/purchases?limit=x', '/v1/purchases', 422],
      ['/v1/nothing/secret', 'unknown', 400],
      ['/v1/%ZZ', 'unknown', 400],
    ] as const;
    for (const [url, route, status] of routes) {
      const before = (await service.scrape()).value(series(route, status)) ?? 0;
      expect((await send(url)).status).toBe(status);
      const after = await service.until(({ value }) => value(series(route, status)) !== undefined);
      expect(after.value(series(route, status)), url).toBe(before + 1);
      expect(after.text).not.toMatch(/nobody|secret/);
    }
  });

  it('count failed keys, and requests beyond each limit', { tags: ['slow'] }, async ({
    service,
    database,
    shop,
    send,
  }) => {
    const limited = (limit: string) => `crm_limited_requests_total{limit="${limit}"}`;
    for (let request = 0; request <= failedKeyLimit; request += 1) {
      await service.client.send({ method: 'GET', url: '/v1/me', headers: {} });
    }
    const failed = await service.scrape();
    expect(failed.value('crm_failed_keys_total')).toBe(failedKeyLimit + 1);
    expect(failed.value(limited('failed_keys'))).toBe(1);

    const headers = {
      authorization: `Bearer ${(await addKey(database.pool, shop.organizationId)).secret}`,
    };
    for (let request = 0; request <= rateLimit; request += 1) {
      await service.client.send({ method: 'HEAD', url: '/v1/me', headers });
    }
    expect((await service.scrape()).value(limited('requests'))).toBe(1);

    await service.until(limited('query_queue'), () =>
      Promise.all(Array.from({ length: 20 }, () => send(uncached()))),
    );
  });

  it('count hits and misses of the cache, and responses that requests share', async ({
    service,
    send,
  }) => {
    const reads = (result: string) => `crm_response_cache_reads_total{result="${result}"}`;
    const before = await service.scrape();
    const url = uncached();
    for (let request = 0; request < 3; request += 1) await send(url);
    const after = await service.scrape();
    expect(after.value(reads('miss'))).toBe((before.value(reads('miss')) ?? 0) + 1);
    expect(after.value(reads('hit'))).toBe((before.value(reads('hit')) ?? 0) + 2);
    await service.until(reads('shared'), () => {
      const same = uncached();
      return Promise.all([send(same), send(same), send(same)]);
    });
  });
});
