import { type Logger, pino } from 'pino';
import type { Registry } from 'prom-client';
import { type Database, withConnection } from '../../src/postgres/connection/pool.ts';
import { serializeError } from '../../src/process/error-text.ts';

/** Log lines and metrics of the service in this process, and what its programs write to standard error. */
let lines: string[] = [];
let openSearches = 0;

/** Keeps lines until the search for leaks. */
export function recordLines(text: string): void {
  // Without an open database, no search follows.
  if (openSearches > 0) lines.push(...text.split('\n'));
}

/** Keeps the present metrics of a registry. */
export async function recordMetrics(registry: Registry): Promise<void> {
  recordLines(await registry.metrics());
}

/** A log of the service, of every level, whose lines are recorded. */
export const createRecordedLog = (onLine: (line: string) => void = () => {}): Logger =>
  pino(
    { level: 'trace', serializers: { err: serializeError } },
    {
      write(line: string) {
        recordLines(line);
        onLine(line);
      },
    },
  );

const secrets = new Set<string>();
/** Texts of the newest rows that tests have added. */
const addedTexts = new Set<string>();
const maxAddedTexts = 500;

/** Adds the secret of an API key, or a password, to what the search for leaks finds. */
export const registerSecret = (secret: string) => void secrets.add(secret);

/** Adds the texts of a row, which a test may delete before the search. */
export function registerRow(values: object): void {
  JSON.stringify(values, (_name, value: unknown) => {
    if (typeof value === 'string') addedTexts.add(value);
    return typeof value === 'bigint' ? null : value;
  });
  for (const text of addedTexts) {
    if (addedTexts.size <= maxAddedTexts) break;
    addedTexts.delete(text);
  }
}

type LeakSearch = {
  /** The recorded lines with a secret, a password of Postgres or a text of a row. */
  leaks(): Promise<string[]>;
  close(): void;
};

/** Searches the lines that are recorded from now on for data of a database. */
export function openLeakSearch(database: Database, databaseUrl: string): LeakSearch {
  const first = lines.length;
  openSearches += 1;
  return {
    async leaks() {
      const recorded = lines.slice(first);
      const needles = [
        new URL(databaseUrl).password,
        ...[...secrets].flatMap(spellingsOfSecret),
        ...[...addedTexts].map(asJson),
        ...(recorded.length === 0 ? [] : await textsOf(database)),
      ].filter(isDistinctive);
      const text = recorded.join('\n');
      const found = needles.filter((needle) => text.includes(needle));
      return recorded.filter(
        (line) => secretOrEmail.test(line) || found.some((needle) => line.includes(needle)),
      );
    },
    close() {
      openSearches -= 1;
      if (openSearches === 0) lines = [];
    },
  };
}

/** Ends a search. Rejects if it found a line. */
export async function requireNoLeaks(search: LeakSearch): Promise<void> {
  const leaks = await search.leaks().finally(search.close);
  if (leaks.length === 0) return;
  const shown = leaks.slice(0, 5).join('\n');
  throw new Error(`${leaks.length} lines of logs and metrics have secrets or data:\n${shown}`);
}

const secretOrEmail = /crm_live_\w{8}|[\w.+-]+@[\w-]+\.[a-z]+/;

/** A secret without its prefix, as text and as the values of its bytes. */
function spellingsOfSecret(secret: string): string[] {
  const body = secret.replace(/^crm_live_/, '');
  return [body, [...Buffer.from(body)].join(',')];
}

const tables = [
  'customers',
  'purchases',
  'segments',
  'tags',
  'attributes',
  'flows',
  'email_campaigns',
  'template_campaigns',
];

/** The texts of the newest rows, as JSON writes them. */
async function textsOf(database: Database): Promise<string[]> {
  return withConnection(database, async (connection) => {
    const { rows: existing } = await connection.query<{ name: string }>(
      `select relname as name from pg_class
       where relname = any($1) and relkind in ('r', 'p') and pg_table_is_visible(oid)`,
      [tables],
    );
    const texts = new Set<string>();
    for (const { name } of existing) {
      const { rows } = await connection.query<{ text: string }>(
        `select distinct text #>> '{}' as text
         from (select to_jsonb(t) as row from ${name} as t order by id desc limit 500) as newest,
           jsonb_path_query(row, 'strict $.** ? (@.type() == "string")') as text`,
      );
      for (const { text } of rows) texts.add(text);
    }
    return [...texts].map(asJson);
  });
}

const asJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Whether a log contains a text only if it logs the row. A word or an instant may have another source. */
const isDistinctive = (text: string): boolean =>
  text.length >= 6 && !/^([a-z_]+|\d{1,9}|\d{4}-\d\d-\d\dT.*)$/.test(text);
