import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Scope } from '../runner/scope.ts';
import { startService } from '../setup/programs.ts';

/** The API as operators run it, in a process of its own, asked over one connection. */
export type Service = {
  /** The whole answer to a request with the key. */
  get(url: string): Promise<string>;
};

/** Starts the API over loaded files; it remembers no answer, and each costs its work. */
export async function startApi(
  scope: Scope,
  environment: Record<string, string> & { databaseUrl: string },
  secret: string,
): Promise<Service> {
  const api = startService(scope, 'src/commands/api.ts', [], {
    ...environment,
    LOG_LEVEL: 'warn',
    HOST: '127.0.0.1',
    PORT: '0',
    RATE_LIMIT_PER_MINUTE: '1000000',
    ANSWER_CACHE_MIB: '0',
  });
  const [, origin] = await api.printed(/Listening on (http\S+)/);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  scope.afterwards(async () => agent.destroy());
  const headers = { authorization: `Bearer ${secret}` };
  return {
    async get(url) {
      const asked = request(`${origin}${url}`, { agent, headers }).end();
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      const body = await text(response);
      if (response.statusCode !== 200) throw new Error(`${url}: ${body}`);
      return body;
    },
  };
}
