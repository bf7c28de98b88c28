import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { answerUnderWay } from './answers-under-way.ts';

/**
 * Closes connections whose clients do not read, and idle ones. Node emits `timeout` when no
 * byte has moved for `server.timeout`. A client that reads slowly moves bytes. A connection
 * whose response has not begun, or whose export has no next piece yet, stays open.
 */
export function closeStalledConnections(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    if (answerUnderWay(socket) === undefined || socket.writableLength > 0) socket.destroy();
  });
}
