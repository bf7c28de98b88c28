import Fastify from 'fastify';
import { Bench as TimedRun } from 'tinybench';
import { writeExactly } from '../../src/domain/exact-numbers.ts';
import { decodeId, encodeId } from '../../src/domain/public-id.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { parseQueryString, readParameters } from '../../src/http/request/read-parameters.ts';
import { entityTag } from '../../src/http/response/etag.ts';
import { serializerSchema } from '../../src/http/response/wire.ts';
import { purchaseStatsParameters } from '../../src/resources/purchases/purchase-parameters.ts';
import { serializePurchase } from '../../src/resources/purchases/purchase-wire.ts';
import { purchaseListSchema } from '../../src/resources/purchases/purchases.ts';
import { summaryOf } from '../measure/statistics.ts';
import { spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { createDatabase } from '../setup/postgres.ts';
import { seedShop } from '../setup/shops.ts';

const etagBytes = 20 * 1024;
const queryString =
  'group_by=utm_campaign&status=paid&platform=shopify&min_value_in_cents=1000' +
  '&created_since=2025-11-01T00%3A00%3A00-03%3A00&utm_source=google&group_limit=50';

export const micro = defineSuite({
  name: 'micro',
  description: 'the CPU-bound steps between a request and its response',
  isQuick: true,
  defaults: { seed: 42, seconds: 5 },
  async run({ options: { seed, seconds }, scope, server }) {
    const database = await createDatabase({ scope, server });
    const shop = await seedShop(scope, database, { purchases: 1_000, seed });
    const engine = createPostgresEngine(database.pool);
    const page = await engine.list(shop.organizationId, { filters: {}, limit: 100 });
    const { purchases } = page.result;
    const ids = purchases.map(({ id }) => id);
    const publicIds = ids.map((id) => encodeId('purchase', id));
    const serialize = await compiledSerializer();
    const writePage = () => {
      const data = purchases.map(serializePurchase);
      return Buffer.from(writeExactly(serialize({ data, has_more: true })));
    };
    const body = writePage().toString().slice(0, etagBytes);
    const steps: Readonly<Record<string, () => unknown>> = {
      [`a page of ${purchases.length} purchases to the bytes of its JSON`]: writePage,
      'a public id from a number': () => ids.map((id) => encodeId('purchase', id)),
      'a number from a public id': () => publicIds.map((id) => decodeId('purchase', id)),
      'a query string of 7 parameters, read and validated': () =>
        readParameters(purchaseStatsParameters, parseQueryString(queryString)),
      [`the ETag of ${body.length / 1024} KiB`]: () => entityTag(body),
    };
    const time = (1000 * seconds) / Object.keys(steps).length;
    const timed = new TimedRun({ time, retainSamples: true, signal: scope.signal, throws: true });
    for (const [name, step] of Object.entries(steps)) timed.add(name, () => void step());
    const tasks = await timed.run();
    scope.signal.throwIfAborted();
    const figures = tasks.map(({ name, result }) => {
      const samples = 'latency' in result ? (result.latency.samples ?? []) : [];
      // One id takes less than the clock can measure.
      const count = name.includes('public id') ? ids.length : 1;
      return { step: name, nanoseconds: summaryOf(samples, (sample) => (1e6 * sample) / count) };
    });
    return {
      text: [
        tableOf(figures, {
          step: ({ step }) => step,
          ns: ({ nanoseconds }) => spread(nanoseconds, 0),
        }),
      ],
      figures: { steps: figures },
    };
  },
});

/** The serializer that Fastify compiles from the schema of the list route. */
async function compiledSerializer(): Promise<(response: unknown) => string> {
  const app = Fastify();
  let compiled: ((response: unknown) => string) | undefined;
  const schema = { response: { 200: serializerSchema(purchaseListSchema) } };
  app.get('/', { schema }, async (_request, reply) => {
    compiled = reply.getSerializationFunction('200') as typeof compiled;
    return { data: [], has_more: false };
  });
  await app.inject('/');
  await app.close();
  if (compiled === undefined) throw new Error('the schema was not compiled');
  return compiled;
}
