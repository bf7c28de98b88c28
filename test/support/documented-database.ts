import { randomBytes } from 'node:crypto';
import { expect, inject } from 'vitest';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { test } from './fixtures.ts';
import { openLeakSearch, registerSecret, requireNoLeaks } from './logged-lines.ts';
import { sqlFile, sqlOf } from './markdown.ts';
import { administer, databaseUrl } from './postgres.ts';

const roles = ['migrations', 'worker', 'api', 'writer'] as const;

/** The name of the database and of its schema, and the prefix of its roles. */
export const databaseName = `shop_${randomBytes(6).toString('hex')}`;
const serverUrl = inject('postgresUrl');

export type DocumentedRole = (typeof roles)[number];

/** The URL of the database for a role of the document, or for the superuser. */
export function urlOf(role?: DocumentedRole): string {
  const url = new URL(databaseUrl(serverUrl, databaseName));
  if (role !== undefined) {
    url.username = `${databaseName}_${role}`;
    url.password = `secret-${roles.indexOf(role) + 1}`;
  }
  return url.href;
}

/** The SQL blocks of a section, with `databaseName` in the place of `shop`. */
export async function documentedBlocks(document: string, heading: string): Promise<string[]> {
  return (await sqlOf(document, heading)).map(inDatabase);
}

/** A file of docs/sql, with `databaseName` in the place of `shop`. */
export const documentedFile = async (name: string): Promise<string> =>
  inDatabase(await sqlFile(name));

const inDatabase = (sql: string): string => sql.replaceAll(/(?<!My )\bshop(?=\b|_)/g, databaseName);

/** Tests on a database with the roles, schema and GRANTs of docs/your-data.md. */
export const documentedTest = test
  /** The connections of a role, or of the superuser. Roles and rows are those of the document. */
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('as', { scope: 'file' }, async ({}, { onCleanup }) => {
    const pools = new Map<string, Database>();
    onCleanup(async () => {
      await requireNoLeaks(search).finally(async () => {
        for (const pool of pools.values()) await pool.end();
        await administer(serverUrl, `drop database if exists ${databaseName} with (force)`);
        for (const role of roles)
          await administer(serverUrl, `drop role if exists ${databaseName}_${role}`);
      });
    });
    const as = (role?: DocumentedRole): Database => {
      const url = urlOf(role);
      const pool = pools.get(url) ?? createPool(url, { max: 4, applicationName: 'test' });
      pools.set(url, pool);
      return pool;
    };
    // The owner of the tables, whose schema the role selects.
    const search = openLeakSearch(as('migrations'), serverUrl);
    for (const role of roles) registerSecret(new URL(urlOf(role)).password);
    await administer(serverUrl, `create database ${databaseName}`);
    await as().query(await documentedFile('roles.sql'));
    expect((await migrate(urlOf('migrations'))).applied).not.toHaveLength(0);
    await as('migrations').query(await documentedFile('grants.sql'));
    return as;
  });
