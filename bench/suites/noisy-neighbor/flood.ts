import { setMaxListeners } from 'node:events';
import { Agent, get } from 'node:http';

/** Requests of one key, from a process of their own: they share no event loop with requests that are measured. */
export type Flood = {
  readonly origin: string;
  readonly authorization: string;
  readonly paths: readonly string[];
  /** So many at a time. */
  readonly clients: number;
  /** Afterwards, no further request is sent. */
  readonly maxMs: number;
};

export type Responses = { readonly answered: number; readonly refused: number };

async function send({ origin, authorization, paths, clients, maxMs }: Flood): Promise<Responses> {
  const agent = new Agent({ keepAlive: true });
  const deadline = performance.now() + maxMs;
  const counts = { answered: 0, refused: 0 };
  const rest = [...paths];
  const statusOf = (path: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      get(`${origin}${path}`, { agent, headers: { authorization } }, (response) => {
        response
          .resume()
          .on('end', () => resolve(response.statusCode))
          .on('error', reject);
      }).on('error', reject);
    });
  const client = async () => {
    for (let path = rest.shift(); path !== undefined; path = rest.shift()) {
      if (performance.now() > deadline) return;
      const status = await statusOf(path);
      if (status === 200) counts.answered += 1;
      else if (status === 429) counts.refused += 1;
      else throw new Error(`GET ${path} returned ${status}`);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  agent.destroy();
  return counts;
}

setMaxListeners(0);
process.once('message', async (flood: Flood) => {
  process.send?.(await send(flood));
  process.disconnect();
});
