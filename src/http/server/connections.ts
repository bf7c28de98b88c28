import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { BlockList, isIPv6, type Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { clientNetwork } from '../client-network.ts';
import { responseInFlight } from './responses-in-flight.ts';

/**
 * Closes connections whose clients do not read, and idle ones. Node emits `timeout` when no
 * byte has moved for `server.timeout`. A client that reads slowly moves bytes. A connection
 * whose response has not begun, or whose export has no next piece yet, stays open.
 */
export function closeStalledConnections(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    if (responseInFlight(socket) === undefined || socket.writableLength > 0) socket.destroy();
  });
}

/**
 * Ends the connection with a TCP reset unless the response is complete. A version of HTTP without
 * chunks ends a body with the connection, so a client would take a part for the whole.
 */
export function resetUnlessComplete(request: IncomingMessage, response: ServerResponse): void {
  if (request.httpVersion === '1.1') return;
  // `resetAndDestroy` sets this property, and Node's own calls of `destroy` obey it too.
  const socket = request.socket as Socket & { resetAndClosing: boolean };
  socket.resetAndClosing = true;
  response.once('finish', () => {
    socket.resetAndClosing = false;
  });
  // At the client's end, Node ends the connection instead of destroying it.
  socket.prependOnceListener('end', () => socket.destroy());
}

type ConnectionLimit = {
  readonly perAddress: number;
  /** Addresses or ranges without a limit: a proxy's connections are those of many clients. */
  readonly exempt: readonly string[];
  readonly log: FastifyBaseLogger;
};

const warnEveryMs = 60_000;

/** Closes connections beyond the limit of their remote address, before anything is read. */
export function limitConnections(server: Server, options: ConnectionLimit): void {
  const { perAddress, log } = options;
  const exempt = addressList(options.exempt);
  const connections = new Map<string, number>();
  let warnedAt = 0;
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress;
    if (address === undefined || exempt.check(address, familyOf(address))) return;
    const network = clientNetwork(address);
    const count = connections.get(network) ?? 0;
    if (count >= perAddress) {
      if (Date.now() - warnedAt > warnEveryMs) {
        warnedAt = Date.now();
        log.warn(
          { address },
          'refused a connection: see CONNECTIONS_PER_ADDRESS and TRUSTED_PROXIES',
        );
      }
      socket.destroy();
      return;
    }
    connections.set(network, count + 1);
    socket.once('close', () => {
      const left = (connections.get(network) ?? 1) - 1;
      if (left === 0) connections.delete(network);
      else connections.set(network, left);
    });
  });
}

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4');

function addressList(addresses: readonly string[]): BlockList {
  const list = new BlockList();
  for (const item of addresses) {
    const [address = '', bits] = item.split('/');
    if (bits === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(bits), familyOf(address));
  }
  return list;
}
