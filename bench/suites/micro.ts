import Fastify from 'fastify';
import { Bench as TimedRun } from 'tinybench';
import { decodeId, encodeId } from '../../src/domain/public-id.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { parseQueryString, readParameters } from '../../src/http/request/parameters.ts';
import { entityTag } from '../../src/http/response/etag.ts';
import { writeExactly } from '../../src/http/response/exact-numbers.ts';
import { serializerSchema } from '../../src/http/response/wire.ts';
import { purchaseStatsParameters } from '../../src/resources/purchase-parameters.ts';
import { serializePurchase } from '../../src/resources/purchase-wire.ts';
import { purchaseListSchema } from '../../src/resources/purchases.ts';
import { type Summary, summarize } from '../measure/statistics.ts';
import { spread } from '../report/tables.ts';
import type { Bench, Suite } from '../runner/suite.ts';
import { createDatabase } from '../setup/postgres.ts';
import { seedShops } from '../setup/shops.ts';

const tagged = 20 * 1024;
const queryString =
  'group_by=utm_campaign&status=paid&platform=shopify&min_value_in_cents=1000' +
  '&created_since=2025-11-01T00%3A00%3A00-03%3A00&utm_source=google&group_limit=50';

export const micro: Suite = {
  name: 'micro',
  description: 'the steps between a request and its answer that take the processor alone',
  isQuick: true,
  async run(bench) {
    const { seed = 42, seconds = 5 } = bench.options;
    const steps = await stepsOf(bench, seed);
    const figures = await measure(bench, steps, (1000 * seconds) / steps.length);
    return {
      options: { seed, seconds },
      text: [
        {
          head: ['step', 'ns'],
          rows: figures.map(({ step, nanoseconds }) => [step, spread(nanoseconds, 0)]),
        },
      ],
      plots: [
        {
          kind: 'bars',
          title: 'Steps between a request and its answer',
          unit: ' ns',
          scale: 'log',
          baseline: null,
          bars: figures.map(({ step, nanoseconds }) => ({ label: step, value: nanoseconds })),
        },
      ],
      figures: { steps: figures },
    };
  },
};

type Step = {
  readonly name: string;
  /** How often a run takes the step: once may be too quick for the clock. */
  readonly count: number;
  readonly run: () => unknown;
};

async function stepsOf(bench: Bench, seed: number): Promise<Step[]> {
  const purchases = await demoPurchases(bench, seed);
  const serialize = await compiledSerializer();
  const write = () => {
    const data = purchases.map(serializePurchase);
    return Buffer.from(writeExactly(serialize({ data, has_more: true })));
  };
  const body = write().toString().slice(0, tagged);
  const ids = purchases.map(({ id }) => id);
  const publicIds = ids.map((id) => encodeId('purchase', id));
  return [
    {
      name: `a page of ${purchases.length} purchases to the bytes of its JSON`,
      count: 1,
      run: write,
    },
    {
      name: 'a public id from a number',
      count: ids.length,
      run: () => ids.map((id) => encodeId('purchase', id)),
    },
    {
      name: 'a number from a public id',
      count: publicIds.length,
      run: () => publicIds.map((id) => decodeId('purchase', id)),
    },
    {
      name: 'a query string of 7 parameters, read and validated',
      count: 1,
      run: () => readParameters(purchaseStatsParameters, parseQueryString(queryString)),
    },
    { name: `the ETag of ${body.length / 1024} KiB`, count: 1, run: () => entityTag(body) },
  ];
}

/** As many as a page has, as they come from an engine. */
async function demoPurchases(bench: Bench, seed: number) {
  const database = await createDatabase(bench);
  const sizes = { organizations: 1, purchases: 1_000, seed };
  const [shop] = await seedShops(bench.scope, database, sizes);
  if (shop === undefined) throw new Error('nothing was seeded');
  const engine = createPostgresEngine(database.pool);
  const { result } = await engine.list(shop.organizationId, { filters: {}, limit: 100 });
  return result.purchases;
}

/** What Fastify makes of the schema that the route registers. */
async function compiledSerializer(): Promise<(answer: unknown) => string> {
  const app = Fastify();
  let compiled: ((answer: unknown) => string) | undefined;
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

async function measure(
  { scope }: Bench,
  steps: readonly Step[],
  milliseconds: number,
): Promise<{ readonly step: string; readonly nanoseconds: Summary }[]> {
  const figures = [];
  for (const { name, count, run } of steps) {
    scope.signal.throwIfAborted();
    const timed = new TimedRun({ time: milliseconds, retainSamples: true });
    timed.add(name, () => void run());
    await timed.run();
    const result = timed.tasks[0]?.result;
    if (result === undefined || !('latency' in result)) throw new Error(`${name} failed`);
    const samples = result.latency.samples ?? [];
    const nanoseconds = summarize(samples.map((sample) => (1e6 * sample) / count));
    figures.push({ step: name, nanoseconds });
  }
  return figures;
}
