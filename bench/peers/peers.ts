import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { OperatorError } from '../../src/process/operator-error.ts';
import { packageFile } from '../../src/process/package-files.ts';
import { type Comparison, compareWithVariants } from '../measure/comparison.ts';
import { createPlainTable, sessionSettings } from '../queries/plain-sql.ts';
import { describeComparisons } from '../report/comparisons.ts';
import { defineSuite } from '../runner/suite.ts';
import { createClient } from '../setup/api-client.ts';
import { withSettings } from '../setup/postgres.ts';
import { prepareShops } from '../setup/prepared-shops.ts';
import { startHttpServer } from '../setup/programs.ts';
import type { BenchmarkShop } from '../setup/shops.ts';
import { peerRows, type Question, questionsOf } from './questions.ts';

type Figure = Comparison & { readonly query: string };

export const peers = defineSuite({
  name: 'peers',
  description:
    'over HTTP: the service, and drizzle-cube over Postgres (`npm run bench:peers` installs it)',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 7 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    requireInstalled();
    const { signal } = scope;
    const prepared = await prepareShops({ scope, server }, [{ purchases, seed, organizations: 1 }]);
    const { database, environment } = prepared;
    const shop = prepared.shops[0] as BenchmarkShop;
    await createPlainTable(database);
    const start = async (program: string, more: Readonly<Record<string, string>>) => {
      const { url } = await startHttpServer(scope, program, { ...environment, ...more });
      return createClient(scope, url);
    };
    const startPeer = (variant: keyof typeof sessionSettings) =>
      start('bench/peers/server.mjs', {
        databaseUrl: withSettings(database.url, sessionSettings[variant]),
      });
    const service = await start('src/commands/api.ts', { RESPONSE_CACHE_MIB: '0' });
    const serial = await startPeer('serial');
    const parallel = await startPeer('parallel');
    const { rows } = await database.pool.query(
      `select id from purchases where organization_id = $1 order by created_at desc offset 99 limit 1`,
      [shop.organizationId],
    );
    const figures: Figure[] = [];
    for (const question of questionsOf(rows[0].id)) {
      const peerPath = `/cubejs-api/v1/load?${new URLSearchParams({ query: JSON.stringify(question.peerQuery) })}`;
      const tasks = {
        service: () => service.get(question.url, shop),
        serial: () => serial.get(peerPath, shop),
        parallel: () => parallel.get(peerPath, shop),
      };
      const responses = await Promise.all([tasks.service(), tasks.serial(), tasks.parallel()]);
      requireEqualRows(question, responses);
      const compared = await compareWithVariants(tasks.service, tasks, { rounds, signal });
      figures.push({ query: question.query, ...compared });
    }
    return {
      text: [
        ...describeComparisons(figures, ['service', 'drizzle-cube']),
        'Whole responses without response caches, after equal rows. Both check the key of each request ' +
          'in Postgres. drizzle-cube has a pool, covering indexes, and parallel workers where they are faster.',
      ],
      figures: { milliseconds: figures },
    };
  },
});

function requireInstalled(): void {
  if (existsSync(packageFile('bench/peers/node_modules'))) return;
  throw new OperatorError('The peer is not installed: npm ci --prefix bench/peers installs it.');
}

/** Fails unless all responses have the same rows: the time of a wrong result is worthless. */
function requireEqualRows(
  question: Question,
  [service, ...peersOf]: readonly { readonly body: string }[],
): void {
  const expected = question.rows(JSON.parse(service?.body ?? ''));
  for (const { body } of peersOf) {
    const actual = peerRows(question, JSON.parse(body));
    if (expected.length > 0 && isDeepStrictEqual(actual, expected)) continue;
    const index = expected.findIndex((row, at) => !isDeepStrictEqual(row, actual[at]));
    const [own, other] = [expected[index], actual[index]].map((row) => JSON.stringify(row));
    throw new Error(
      `the responses differ on: ${question.query} (row ${index} of ${expected.length} and ${actual.length}: ${own}, ${other})`,
    );
  }
}
