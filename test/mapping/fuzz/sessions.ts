import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../../../src/postgres/connection/pool.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import type { Roles } from './change.ts';
import { sessionRole, sessionSettings } from './session-settings.ts';
import { quote, type Store } from './store.ts';
import { anyWrite, insertOnly, type Write } from './writes.ts';

export type Shop = {
  readonly database: Database;
  readonly roles: Roles;
  /** The present model. */
  store: Store;
  /** Odd while a change of the structure runs. */
  version: number;
  lastId: number;
  /** Process ids of the shop's connections. */
  readonly processes: Set<number>;
  /** Whether sessions may write as logical replication does. */
  readonly areReplicas: boolean;
  isPaused: boolean;
  writing: number;
  writes: number;
  readonly refusals: Map<string, number>;
};

export const reserve =
  (shop: Shop) =>
  (count: number): number => {
    const first = shop.lastId + 1;
    shop.lastId += count;
    return first;
  };

/** Writes random transactions until the signal is aborted. Rejects if one fails because of the mapping. */
export async function writeRandomly(
  shop: Shop,
  random: RandomSource,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(random.between(0, 40));
    if (shop.isPaused) continue;
    const { version } = shop;
    let last: Write = { name: 'begin', statement: '' };
    shop.writing += 1;
    try {
      await withConnection(shop.database, (connection) =>
        inTransaction(connection, () =>
          writeTransaction(shop, random, connection, (write) => {
            last = write;
          }),
        ),
      );
      shop.writes += 1;
    } catch (error) {
      if (error !== rolledBack) requireOwnRefusal(shop, error, version, last.statement);
    } finally {
      shop.writing -= 1;
    }
  }
}

const rolledBack = new Error('rolled back');

async function writeTransaction(
  shop: Shop,
  random: RandomSource,
  connection: Connection,
  onWrite: (write: Write) => void,
): Promise<void> {
  const role = sessionRole(random, shop.roles);
  const isReplica = role === null && shop.areReplicas && random.chance(0.1);
  const settings = [
    ...sessionSettings(random),
    ...(isReplica ? ['set local session_replication_role = replica'] : []),
    ...(role === null ? [] : [`set local role ${quote(role)}`]),
  ];
  for (const setting of settings) await connection.query(setting);
  const writing = {
    store: shop.store,
    random,
    reserve: reserve(shop),
    lastId: () => shop.lastId,
  };
  for (let left = 1 + random.integer(3); left > 0; left -= 1) {
    const write =
      role === shop.roles.visitor ? insertOnly(writing) : anyWrite(writing, role === null);
    onWrite(write);
    const isUndone = random.chance(0.1);
    if (isUndone) await connection.query('savepoint before');
    // A session's search path may have another type of this name.
    await connection.query(write.statement.replaceAll('::text', '::pg_catalog.text'));
    if (isUndone) await connection.query('rollback to savepoint before');
    if (random.chance(0.03)) await sleep(random.between(0, 700));
  }
  if (random.chance(0.1)) throw rolledBack;
}

/** Rejects with errors that the shop would not have without the mapping. */
export function requireOwnRefusal(
  shop: Shop,
  error: unknown,
  version: number,
  statement: string,
): void {
  if (!(error instanceof pg.DatabaseError)) throw error;
  const { code = '', where = '', detail = '', message } = error;
  const text = `${code} ${message}\n${detail}\n${where}\n${statement}`;
  if (/map_rows_of|mapping_changes/.test(`${where} ${message}`))
    throw new Error(`of the mapping: ${text}`);
  if (code === '40P01') {
    const others = [...detail.matchAll(/rocess (\d+)/g)].filter(
      ([, id]) => !shop.processes.has(Number(id)),
    );
    if (others.length > 0) throw new Error(`deadlock with the mapping: ${text}`);
    shop.refusals.set('deadlock', (shop.refusals.get('deadlock') ?? 0) + 1);
    return;
  }
  const isChanged = version !== shop.version || version % 2 === 1;
  // Tables that a change has made.
  const isDenied = code === '42501' && /^permission denied for table (?!mapp)/.test(message);
  const isOwn = /^(235\d\d|40001|0A000|21000)$/.test(code) || isDenied || isChanged;
  if (!isOwn) throw new Error(`unexpected: ${text}`);
  const kind = `${code} ${message.replace(/"[^"]*"/g, '…')}`;
  shop.refusals.set(kind, (shop.refusals.get(kind) ?? 0) + 1);
}
