import type { AddressInfo } from 'node:net';
import {
  type CallToolResult,
  Client,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { expect } from 'vitest';
import type { TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { checkedFetch } from '../support/sockets.ts';

/** How clients begin: without a handshake (2026-07-28), or with one (earlier revisions). */
export const modes = ['auto', 'legacy'] as const;
type Mode = (typeof modes)[number];

/** A result, whose structured content is the JSON object of a route after `notes`. */
type ToolResult = CallToolResult & {
  // biome-ignore lint/suspicious/noExplicitAny: the JSON of any route.
  readonly structuredContent: any;
};
type ToolError = { readonly message: string; readonly param?: string };

export type Agent = {
  readonly client: Client;
  /** The texts of all responses. */
  readonly received: readonly string[];
  call(name: string, args?: Record<string, unknown>): Promise<ToolResult>;
  /** The notes of a result, which must be no error. */
  notes(name: string, args?: Record<string, unknown>): Promise<string>;
  /** The error of a result, and the text that the model reads. */
  fail(name: string, args: Record<string, unknown>): Promise<ToolError & { readonly text: string }>;
};

/** The origin of an API, which listens from the first call on. */
export async function originOf({ app }: TestApi): Promise<string> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 });
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}

export const textOf = ({ content: [first] }: CallToolResult): string =>
  first?.type === 'text' ? first.text : '';

/** A client of /mcp over real sockets, of the SDK. */
async function connectAgent(api: TestApi, secret: string, mode: Mode): Promise<Agent> {
  const received: string[] = [];
  const transport = new StreamableHTTPClientTransport(new URL(`${await originOf(api)}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${secret}` } },
    fetch: async (url, init) => {
      const response = await checkedFetch(url, init);
      received.push(await response.clone().text());
      return response;
    },
  });
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  const call = async (name: string, args: Record<string, unknown> = {}) =>
    (await client.callTool({ name, arguments: args })) as ToolResult;
  return {
    client,
    received,
    call,
    async notes(name, args) {
      const result = await call(name, args);
      expect(result.isError, textOf(result)).toBeUndefined();
      return textOf(result);
    },
    async fail(name, args) {
      const result = await call(name, args);
      expect(result.isError, textOf(result)).toBe(true);
      const { error } = result.structuredContent as { readonly error: ToolError };
      expect(textOf(result)).toContain(error.message);
      return { ...error, text: textOf(result) };
    },
  };
}

/** Tests with `connect`, whose clients are closed after the test. */
export const agentTest = test.extend('connect', ({ api, shop }, { onCleanup }) => {
  const agents: Agent[] = [];
  onCleanup(async () => {
    for (const { client } of agents) await client.close();
  });
  return async (options: { secret?: string; mode?: Mode; to?: TestApi } = {}) => {
    const { secret = shop.secret, mode = 'auto', to = api } = options;
    const agent = await connectAgent(to, secret, mode);
    agents.push(agent);
    return agent;
  };
});
