import type { FastifyReply } from 'fastify';

export function addVary(reply: FastifyReply, ...names: readonly string[]): void {
  const value = reply.getHeader('Vary');
  const present = typeof value === 'string' ? value.split(', ') : [];
  reply.header('Vary', [...new Set([...present, ...names])].join(', '));
}
