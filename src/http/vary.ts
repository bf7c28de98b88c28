import type { FastifyReply } from 'fastify';

/** Names request headers that the answer depends on, beside those that are named already. */
export function addVary(reply: FastifyReply, ...names: readonly string[]): void {
  const named = String(reply.getHeader('Vary') ?? '');
  const all = new Set([...named.split(', '), ...names]);
  all.delete('');
  reply.header('Vary', [...all].join(', '));
}
