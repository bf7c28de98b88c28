import type { FastifyInstance } from 'fastify';
import type { Services } from './services.ts';

/** For those who run the service: outside /v1, without a key. */
export async function health(
  app: FastifyInstance,
  { services }: { services: Services },
): Promise<void> {
  // Alive: this process answers.
  app.get('/healthz', async () => ({ status: 'ok' }));

  // Ready: what answers are made from is there.
  app.get('/readyz', async (_request, reply) => {
    const problem = await services.database.query('select 1').then(
      () => null,
      () => 'Postgres does not answer',
    );
    return problem === null
      ? { status: 'ok' }
      : reply.code(503).send({ status: 'unavailable', problem });
  });
}
