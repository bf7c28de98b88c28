import pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import type { DatabaseFailure } from '../connection/database-failure.ts';
import { type Database, firstRow } from '../connection/pool.ts';
import { servedSource, storedServedSource } from '../connection/source-identity.ts';
import { generateSecret, hashOf } from './key-secret.ts';
import { countEvents, type Usage } from './rate-limits.ts';

export const scopes = ['read', 'write'] as const;
export type Scope = (typeof scopes)[number];

/** An API key and its organization (section 5). */
export type Credential = {
  readonly keyId: bigint;
  readonly keyName: string;
  readonly scopes: readonly string[];
  readonly organizationId: bigint;
  readonly organizationName: string;
  /** The organization, its database and the timeline (`servedSource` in source-identity.ts). */
  readonly source: string;
};

export type ApiKey = {
  readonly id: bigint;
  readonly organization_id: bigint;
  readonly organization_name: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  /** To the minute. */
  readonly last_used_at: Date | null;
  /** The key that this one replaces. */
  readonly replaces: bigint | null;
};

type KeyRow = Omit<Credential, 'source'> & { readonly source: string | null };
const isValid = 'revoked_at is null and (expires_at is null or expires_at > now())';

const validKey = (source: string): string => `
  select api_keys.id as "keyId", api_keys.name as "keyName", api_keys.scopes,
    organizations.id as "organizationId", organizations.name as "organizationName",
    ${source} as source
  from api_keys
  join organizations on organizations.id = api_keys.organization_id
  where secret_hash = $1 and ${isValid}`;

/** The credential of a secret's hash; null if the key is unknown, expired or revoked. */
export async function findCredential(database: Database, hash: Buffer): Promise<Credential | null> {
  const { rows } = await database.query<KeyRow>({
    name: 'find-credential',
    text: validKey(storedServedSource),
    values: [hash],
  });
  return rows[0] === undefined ? null : credentialFrom(rows[0], database, hash);
}

/** Finds the credential and counts the request in one statement. */
export async function findCredentialAndCount(
  database: Database,
  hash: Buffer,
  windowMs: number,
): Promise<{ readonly credential: Credential; readonly usage: Usage } | null> {
  const { rows } = await database.query<KeyRow & Usage>({
    name: 'find-credential-and-count',
    text: `
      with valid_key as (${validKey(storedServedSource)}),
      counted as (${countEvents(`select 'requests:' || "keyId" from valid_key`)})
      select * from valid_key, counted`,
    values: [hash, windowMs],
  });
  const row = rows[0];
  if (row === undefined) return null;
  const credential = await credentialFrom(row, database, hash);
  return credential && { credential, usage: row };
}

/**
 * If the connection has not stored the database's identity and timeline yet, a second query reads
 * them with the key: all must come from one database.
 */
async function credentialFrom(
  found: KeyRow,
  database: Database,
  hash: Buffer,
): Promise<Credential | null> {
  const { source } = found;
  if (source !== null) return { ...found, source };
  const { rows } = await database.query<Credential>(validKey(servedSource), [hash]);
  return rows[0] ?? null;
}

/** Which of these keys are valid. */
export async function findValidKeys(
  database: Database,
  ids: readonly bigint[],
): Promise<ReadonlySet<bigint>> {
  const { rows } = await database.query<{ id: bigint }>(
    sql`select id from api_keys where id = any(${ids.map(String)}::bigint[]) and ${raw(isValid)}`,
  );
  return new Set(rows.map(({ id }) => id));
}

/** Creates a key and returns its secret, of which only the hash is stored. */
export async function createApiKey(
  database: Database,
  key: {
    readonly organizationId: bigint;
    readonly name: string;
    readonly scopes: readonly Scope[];
    readonly expiresAt: Date | null;
  },
): Promise<{ readonly id: bigint; readonly secret: string }> {
  const secret = generateSecret();
  const { rows } = await database.query<{ id: bigint }>(sql`
    insert into api_keys (organization_id, name, secret_hash, scopes, expires_at)
    values (${key.organizationId}, ${key.name}, ${hashOf(secret)}, ${key.scopes}, ${key.expiresAt})
    returning id`);
  return { ...(rows[0] as { id: bigint }), secret };
}

export async function listApiKeys(
  database: Database,
  organizationId: bigint | null,
): Promise<ApiKey[]> {
  const { rows } = await database.query<ApiKey>(sql`
    select api_keys.id, organization_id, organizations.name as organization_name,
      api_keys.name, scopes, api_keys.created_at, expires_at, revoked_at, last_used_at, replaces
    from api_keys
    join organizations on organizations.id = organization_id
    where ${organizationId}::bigint is null or organization_id = ${organizationId}
    order by organization_id, api_keys.id`);
  return rows;
}

/** The new key, or the state of the old one for which there can be none. */
type Roll =
  | { readonly id: bigint; readonly secret: string; readonly oldExpiresAt: Date }
  | 'unknown'
  | 'revoked'
  | 'expired'
  | { readonly replacement: bigint };

/**
 * Creates a key with the organization, name, scopes and lifetime of another one, which expires
 * after `overlapMs`. The unique column `replaces` makes one of two concurrent calls fail.
 */
export async function rollApiKey(database: Database, id: bigint, overlapMs: number): Promise<Roll> {
  const secret = generateSecret();
  const rolled = await firstRow<{ id: bigint; expires_at: Date }>(
    database,
    sql`
      with old as (
        select * from api_keys where id = ${id} and ${raw(isValid)} for no key update
      ), expiring as (
        update api_keys
        set expires_at = least(api_keys.expires_at, now() + ${overlapMs} * interval '1 ms')
        from old where api_keys.id = old.id
        returning api_keys.expires_at
      ), created as (
        insert into api_keys (organization_id, name, secret_hash, scopes, expires_at, replaces)
        select organization_id, name, ${hashOf(secret)}, scopes,
          now() + (expires_at - created_at), id
        from old
        returning id
      )
      select created.id, expiring.expires_at from created, expiring`,
  ).catch((error) => {
    if (error instanceof pg.DatabaseError && error.constraint === 'api_keys_replaces_key') return;
    throw error;
  });
  if (rolled !== undefined) return { id: rolled.id, secret, oldExpiresAt: rolled.expires_at };
  const found = await firstRow<{ revoked: boolean; replacement: bigint | null }>(
    database,
    sql`
      select revoked_at is not null as revoked,
        (select newer.id from api_keys as newer where newer.replaces = api_keys.id) as replacement
      from api_keys where id = ${id}`,
  );
  if (found === undefined) return 'unknown';
  if (found.replacement !== null) return { replacement: found.replacement };
  return found.revoked ? 'revoked' : 'expired';
}

/** Returns false if there is no such key. A second call changes nothing. */
export async function revokeApiKey(database: Database, id: bigint): Promise<boolean> {
  const { rowCount } = await database.query(
    sql`update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${id}`,
  );
  return rowCount === 1;
}

/**
 * Records uses of keys by their age in milliseconds, at most once a minute for a key. Skips rows
 * that another process writes now, and uses before the recorded one. Returns the reason if the
 * role may not write.
 */
export async function recordKeyUses(
  database: Database,
  ages: ReadonlyMap<bigint, number>,
): Promise<DatabaseFailure['message'] | null> {
  // A refused UPDATE would be an error in the log of Postgres, once a minute.
  const role = await firstRow<{ name: string; may_update: boolean; is_read_only: boolean }>(
    database,
    sql`
      select current_user as name,
        has_column_privilege('api_keys', 'last_used_at', 'update') as may_update,
        current_setting('transaction_read_only') = 'on' as is_read_only`,
  );
  if (role?.is_read_only === true) return 'Postgres is a replica or read-only.';
  if (role?.may_update === false) {
    return `The owner has not run \`grant update (last_used_at) on api_keys to ${role.name}\`.`;
  }
  await database.query(sql`
    with used as (
      select api_keys.id, now() - age * interval '1 ms' as at
      from api_keys
      join unnest(${[...ages.keys()]}::bigint[], ${[...ages.values()]}::float8[]) as use (id, age)
        using (id)
      where last_used_at is null or last_used_at <= now() - (age + 60000) * interval '1 ms'
      for no key update of api_keys skip locked
    )
    update api_keys set last_used_at = used.at from used where api_keys.id = used.id`);
  return null;
}
