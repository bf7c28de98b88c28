import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { administer, type TestDatabase } from './postgres.ts';

export type TestRole = {
  readonly name: string;
  /** The URL of the database with this role. */
  readonly url: string;
  drop(): Promise<void>;
};

/** A role with the rights of the worker, which owns nothing. */
export async function createWorkerRole(database: TestDatabase): Promise<TestRole> {
  const role = await createReaderRole(database);
  await database.pool.query(`
    grant insert, update, delete
    on purchase_changes, purchase_change_pruning, purchase_change_readers to ${role.name}`);
  return role;
}

/** A role that may only read, every table. */
export async function createReaderRole(database: TestDatabase): Promise<TestRole> {
  const name = `role_${randomBytes(6).toString('hex')}`;
  const serverUrl = inject('postgresUrl');
  await administer(serverUrl, `create role ${name} login password 'secret'`);
  await database.pool.query(`grant select on all tables in schema public to ${name}`);
  const url = new URL(database.url);
  url.username = name;
  url.password = 'secret';
  return {
    name,
    url: url.href,
    async drop() {
      await database.pool.query(`drop owned by ${name}`);
      await administer(serverUrl, `drop role ${name}`);
    },
  };
}
