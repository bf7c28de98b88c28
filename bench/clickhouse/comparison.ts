import { isDeepStrictEqual } from 'node:util';
import { pino } from 'pino';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { EmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { createApp } from '../../src/http/app.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { resources } from '../../src/resources/resources.ts';
import { readSettings } from '../../src/settings.ts';
import { timeInRounds } from '../measure/rounds.ts';
import { decimal } from '../report/tables.ts';
import type { Scope } from '../runner/scope.ts';
import { withoutExports } from '../setup/in-process-api.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import { openEngines } from '../suites/engines.ts';
import { type ClickHouse, openClickHouse } from './clickhouse.ts';
import { createClickHouseEngine } from './clickhouse-engine.ts';
import { loadClickHouse } from './clickhouse-table.ts';
import { type Figure, figureOf } from './figures.ts';
import { type PeerQuestion, peerQuestions } from './queries.ts';
import { type Service, startApi } from './service.ts';
import { statementsOf } from './statements.ts';

export type ComparisonOptions = {
  readonly purchases: number;
  readonly seed: number;
  readonly rounds: number;
  /** ClickHouse gets an index of customers. */
  readonly customerIndex?: boolean;
  /** Postgres is asked too. */
  readonly withPostgres?: boolean;
};

/** Who answers: the service over HTTP, and engines within this process. */
type Contenders = {
  readonly service: Service;
  readonly duckdb: PurchaseEngine;
  readonly clickhouse: PurchaseEngine;
  readonly postgres: PurchaseEngine | null;
};

/** Loads the same rows everywhere, proves the answers the same, then times them. */
export async function compareWithClickHouse(
  scope: Scope,
  server: EmbeddedPostgres,
  options: ComparisonOptions,
): Promise<{ clickhouseVersion: string; figures: Figure[] }> {
  const { purchases, seed, rounds, customerIndex = false, withPostgres = false } = options;
  // First: where it cannot be loaded, nobody should wait for millions of rows.
  const clickhouse = await startClickHouse(scope);
  const shop = await openEngines({ options: {}, scope, server }, purchases, seed);
  const { organizationId, database, duckdb, secret } = shop;
  const asOf = BigInt(Date.now()) * 1000n;
  const directory = await scratchDirectory(scope);
  console.log(`Loading ClickHouse ${clickhouse.version}.`);
  const table = { organizationId, directory, hasCustomerIndex: customerIndex };
  await loadClickHouse(clickhouse, database, table);
  // Seeding logged every purchase: autovacuum and the disk are to rest from now on.
  await database.query('vacuum purchase_changes');
  await database.query('checkpoint');
  const contenders: Contenders = {
    service: await startApi(scope, shop.environment, secret),
    duckdb,
    clickhouse: createClickHouseEngine(clickhouse, asOf),
    postgres: withPostgres ? shop.postgres : null,
  };
  const questions = await peerQuestions({ organizationId, database, duckdb });
  console.log(`Comparing the answers to ${questions.length} questions, then timing them.`);
  await requireSameAnswers(scope, contenders, questions, { database, secret });
  const figures: Figure[] = [];
  for (const question of questions) {
    scope.signal.throwIfAborted();
    const figure = await measure(contenders, question, rounds);
    // A large run takes long: it tells where it stands.
    console.log(`${figures.length + 1}. ${figure.question}: ${decimal(figure.ratio.median, 2)}`);
    figures.push(figure);
  }
  return { clickhouseVersion: clickhouse.version, figures };
}

async function startClickHouse(scope: Scope): Promise<ClickHouse> {
  const opening = openClickHouse(await scratchDirectory(scope), readSettings().duckdbThreads);
  scope.afterwards(async () => (await opening.catch(() => null))?.close());
  return opening;
}

/**
 * No fast wrong answer counts: the engines' answers must be the same, and what the
 * service sends the same bytes as it would send with ClickHouse behind it.
 */
async function requireSameAnswers(
  scope: Scope,
  { service, duckdb, clickhouse, postgres }: Contenders,
  questions: readonly PeerQuestion[],
  { database, secret }: { readonly database: Database; readonly secret: string },
): Promise<void> {
  const app = createApp({
    ...readSettings({}),
    resources,
    keyDatabase: database,
    services: {
      database,
      purchases: clickhouse,
      writeExport: withoutExports,
      publicAppUrl: 'https://app.example',
    },
    rateLimitPerMinute: Number.MAX_SAFE_INTEGER,
    failedKeysPerMinute: 1,
    responseCacheBytes: 0,
    log: pino({ level: 'silent' }),
  });
  scope.afterwards(() => app.close());
  const headers = { authorization: `Bearer ${secret}` };
  for (const { name, url, ask } of questions) {
    scope.signal.throwIfAborted();
    const answer = await ask(duckdb);
    for (const other of [clickhouse, postgres]) {
      if (other !== null && !isDeepStrictEqual(await ask(other), answer)) {
        throw new Error(`the engines differ on: ${name}`);
      }
    }
    const expected = await app.inject({ method: 'GET', url, headers });
    if ((await service.get(url)) !== expected.body) {
      throw new Error(`the answers over HTTP differ on: ${name}`);
    }
  }
}

async function measure(
  { service, duckdb, clickhouse, postgres }: Contenders,
  question: PeerQuestion,
  rounds: number,
): Promise<Figure> {
  const { url, ask } = question;
  const contenders = {
    http: () => service.get(url),
    engine: () => ask(duckdb),
    statements: await statementsOf(() => ask(duckdb)),
    clickhouse: () => ask(clickhouse),
    postgres: postgres && (() => ask(postgres)),
  };
  return figureOf(question, await timeInRounds(contenders, rounds));
}
