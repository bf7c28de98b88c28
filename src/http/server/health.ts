import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { TableRights } from '../../postgres/database-failure.ts';
import { findTableProblem } from '../../postgres/schema.ts';
import type { Services } from '../services.ts';

/** Health checks for operators: outside /v1, without a key, and part of the OpenAPI document. */
export const probes = {
  '/healthz': {
    summary: 'Whether this process responds',
    responses: { 200: z.object({ status: z.literal('ok') }) },
  },
  '/readyz': {
    summary: 'Whether Postgres responds and the tables are usable',
    responses: {
      200: z.object({ status: z.literal('ok') }),
      503: z.object({ status: z.literal('unavailable'), problem: z.string() }),
    },
  },
} as const;

export async function health(
  app: FastifyInstance,
  { services, rights }: { services: Services; rights: TableRights },
): Promise<void> {
  const method = ['GET', 'HEAD'];
  app.route({ method, url: '/healthz', handler: async () => ({ status: 'ok' }) });

  app.route({
    method,
    url: '/readyz',
    handler: async (_request, reply) => {
      const problem = await findTableProblem(services.database, rights).then(
        (found) => found?.message ?? null,
        () => 'Postgres does not respond',
      );
      return problem === null
        ? { status: 'ok' }
        : reply.code(503).send({ status: 'unavailable', problem });
    },
  });
}
