import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Scope } from '../runner/scope.ts';
import { authorization, type BenchmarkShop } from './shops.ts';

type ApiResponse = {
  readonly status: number;
  readonly etag: string;
  /** `X-Data-As-Of`. */
  readonly asOf: string;
  readonly body: string;
};

export type ApiClient = {
  /** A response whose body is not read yet. Rejects if the status is not expected. */
  open(path: string, shop: BenchmarkShop, statuses?: readonly number[]): Promise<IncomingMessage>;
  /** A whole response. */
  get(path: string, shop: BenchmarkShop, statuses?: readonly number[]): Promise<ApiResponse>;
};

/** Requests with the key of an organization, over connections that stay open. */
export function createClient(scope: Scope, origin: string): ApiClient {
  const agent = new Agent({ keepAlive: true });
  scope.afterwards(async () => agent.destroy());
  const open: ApiClient['open'] = async (path, shop, statuses = [200]) => {
    const sent = request(`${origin}${path}`, { agent, headers: authorization(shop) }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    if (statuses.includes(response.statusCode ?? 0)) return response;
    throw new Error(`GET ${path} returned ${response.statusCode}: ${await text(response)}`);
  };
  return {
    open,
    async get(...request) {
      const response = await open(...request);
      const { statusCode = 0, headers } = response;
      const body = await text(response);
      return {
        status: statusCode,
        etag: headers.etag ?? '',
        asOf: String(headers['x-data-as-of'] ?? ''),
        body,
      };
    },
  };
}
