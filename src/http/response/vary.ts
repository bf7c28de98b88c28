import type { FastifyReply } from 'fastify';

/** Names request headers that the answer depends on, beside those that are named already. */
export function addVary(reply: FastifyReply, ...names: readonly string[]): void {
  const named = reply.getHeader('Vary');
  const before = typeof named === 'string' ? named.split(', ') : [];
  const added = names.filter((name) => !before.includes(name));
  if (added.length > 0) reply.header('Vary', [...before, ...added].join(', '));
}
