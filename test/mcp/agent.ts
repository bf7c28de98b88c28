import type { AddressInfo } from 'node:net';
import { type CallToolResult, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';

/** The revisions of the protocol that clients use: without a handshake, and with it. */
export const revisions = ['auto', 'legacy'] as const;

export type Agent = {
  readonly client: Client;
  /** The texts of all responses. */
  readonly received: string[];
  call(name: string, args?: Record<string, unknown>): Promise<CallToolResult>;
  close(): Promise<void>;
};

/** The origin of an API, which listens after the first call. */
export async function originOf({ app }: TestApi): Promise<string> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 });
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}

/** A client of /mcp over a real socket. */
export async function connectAgent(
  api: TestApi,
  secret: string,
  mode: (typeof revisions)[number] = 'auto',
): Promise<Agent> {
  const received: string[] = [];
  const transport = new StreamableHTTPClientTransport(new URL(`${await originOf(api)}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${secret}` } },
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      received.push(await response.clone().text());
      return response;
    },
  });
  const client = new Client(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode } },
  );
  await client.connect(transport);
  return {
    client,
    received,
    call: async (name, args = {}) =>
      (await client.callTool({ name, arguments: args })) as CallToolResult,
    close: () => client.close(),
  };
}

/** Tests with `connect`, whose clients are closed after the test. */
export const agentTest = test.extend('connect', ({ api, shop }, { onCleanup }) => {
  const agents: Agent[] = [];
  onCleanup(async () => {
    for (const agent of agents) await agent.close();
  });
  return async (options: { secret?: string; mode?: (typeof revisions)[number]; to?: TestApi } = {}) => {
    const agent = await connectAgent(options.to ?? api, options.secret ?? shop.secret, options.mode);
    agents.push(agent);
    return agent;
  };
});
