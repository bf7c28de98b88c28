import { once } from 'node:events';
import type { Server } from 'node:net';
import { OperatorError } from './operator-error.ts';

export type ListenAddress = { readonly host: string; readonly port: number };

/** The URL of a server that listens on `host`, which may be an IPv6 address. */
export const urlOf = ({ host, port }: ListenAddress): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;

/** The URL of the API's own page on this machine. Browsers cannot open 0.0.0.0 everywhere. */
export function ownAppUrl({ host, port }: ListenAddress): string {
  const isWildcard = host === '0.0.0.0' || host === '::';
  return `${urlOf({ host: isWildcard ? '127.0.0.1' : host, port })}/app`;
}

/** An OperatorError if the address cannot be used. The last of the `variables` sets the port. */
export function listenFailure(
  error: unknown,
  { host, port }: ListenAddress,
  variables: readonly string[],
): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') {
    return new OperatorError(
      `Port ${port} of ${host} is in use. Set ${variables.at(-1)} to another one.`,
    );
  }
  if (code === undefined || !/^E[A-Z]+$/.test(code)) return error;
  return new OperatorError(
    `Cannot listen on ${host}:${port}: ${message}. Set ${variables.join(' and ')}.`,
  );
}

/** Rejects with `listenFailure`. */
export async function listen(
  server: Server,
  address: ListenAddress,
  variables: readonly string[],
): Promise<void> {
  try {
    await once(server.listen(address.port, address.host), 'listening');
  } catch (error) {
    throw listenFailure(error, address, variables);
  }
}
