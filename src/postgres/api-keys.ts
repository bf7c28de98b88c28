import { createHash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import sql from 'sql-template-tag';
import { type Database, firstRow } from './pool.ts';
import { sourceIdentity, storedSourceIdentity } from './source-identity.ts';

export const scopes = ['read', 'write'] as const;
export type Scope = (typeof scopes)[number];

/** An API key and its organization (section 5). */
export type Credential = {
  readonly keyId: bigint;
  readonly keyName: string;
  readonly scopes: readonly string[];
  readonly organizationId: bigint;
  readonly organizationName: string;
  /** The organization and its database (source-identity.ts). */
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
};

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const prefix = 'crm_live_';
const secretLength = 36;
const checksumLength = 6;
const secretPattern = new RegExp(`^${prefix}[0-9A-Za-z]{${secretLength + checksumLength}}$`);

/** A prefix with `live`, 36 random characters and a checksum. */
function generateSecret(): string {
  const random = Array.from({ length: secretLength }, () => base62[randomInt(62)]).join('');
  return `${prefix}${random}${checksum(random)}`;
}

/** Detects a mistyped secret by its checksum, without a query. */
function isPossibleSecret(secret: string): boolean {
  if (!secretPattern.test(secret)) return false;
  const body = secret.slice(prefix.length);
  return checksum(body.slice(0, secretLength)) === body.slice(secretLength);
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let position = 0; position < checksumLength; position += 1) {
    digits = base62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

// A secret has over 200 random bits, so a hash without salt is safe.
const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/** The hash that identifies a key; null if the text cannot be a secret. */
export const secretHash = (secret: string): Buffer | null =>
  isPossibleSecret(secret) ? hashOf(secret) : null;

type KeyRow = Pick<ApiKey, 'id' | 'name' | 'scopes' | 'organization_id' | 'organization_name'> & {
  readonly source: string | null;
};
const validKey = (source: string): string => `
  select api_keys.id, api_keys.name, api_keys.scopes,
    organizations.id as organization_id, organizations.name as organization_name,
    ${source} as source
  from api_keys
  join organizations on organizations.id = api_keys.organization_id
  where secret_hash = $1
    and revoked_at is null
    and (expires_at is null or expires_at > now())`;

/** The credential of a secret's hash; null if the key is unknown, expired or revoked. */
export async function findCredential(database: Database, hash: Buffer): Promise<Credential | null> {
  const { rows } = await database.query<KeyRow>({
    name: 'find-credential',
    text: validKey(storedSourceIdentity),
    values: [hash],
  });
  return rows[0] === undefined ? null : credentialFrom(rows[0], database, hash);
}

/** The events of a window, and its end: milliseconds since 1970. */
export type Usage = { readonly events: number; readonly endsAt: number };

/**
 * Finds the credential and counts the request in one statement. The row lock makes concurrent
 * requests of all processes count one after the other.
 */
export async function findCredentialAndCount(
  database: Database,
  hash: Buffer,
  windowMs: number,
): Promise<{ readonly credential: Credential; readonly usage: Usage } | null> {
  const now = Date.now();
  const { rows } = await database.query<KeyRow & { points: number; expire: number }>({
    name: 'find-credential-and-count',
    // The row format of rate-limiter-flexible, which counts failed keys in the same table.
    text: `
      with valid_key as (${validKey(storedSourceIdentity)}),
      counted as (
        insert into rate_limits as before (key, points, expire)
        select 'requests:' || id, 1, $3::double precision from valid_key
        on conflict (key) do update set
          points = case when before.expire <= $2 then 1 else before.points + 1 end,
          expire = case when before.expire <= $2 then excluded.expire else before.expire end
        returning points, expire
      )
      select * from valid_key, counted`,
    values: [hash, now, now + windowMs],
  });
  const row = rows[0];
  if (row === undefined) return null;
  const credential = await credentialFrom(row, database, hash);
  return credential && { credential, usage: { events: row.points, endsAt: row.expire } };
}

/**
 * If the connection has not stored the database's identity yet, a second query reads key and
 * identity together: both must come from one database.
 */
async function credentialFrom(
  found: KeyRow,
  database: Database,
  hash: Buffer,
): Promise<Credential | null> {
  const row = found.source === null ? await computeSource(database, hash) : found;
  if (row === undefined) return null;
  return {
    keyId: row.id,
    keyName: row.name,
    scopes: row.scopes,
    organizationId: row.organization_id,
    organizationName: row.organization_name,
    source: row.source ?? '',
  };
}

async function computeSource(database: Database, hash: Buffer): Promise<KeyRow | undefined> {
  const { rows } = await database.query<KeyRow>(validKey(sourceIdentity), [hash]);
  return rows[0];
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
  const row = await firstRow<{ id: bigint }>(
    database,
    sql`
      insert into api_keys (organization_id, name, secret_hash, scopes, expires_at)
      values (${key.organizationId}, ${key.name}, ${hashOf(secret)}, ${key.scopes}, ${key.expiresAt})
      returning id`,
  );
  if (row === undefined) throw new Error('the key was not stored');
  return { id: row.id, secret };
}

export async function listApiKeys(
  database: Database,
  organizationId: bigint | null,
): Promise<ApiKey[]> {
  const { rows } = await database.query<ApiKey>(sql`
    select api_keys.id, organization_id, organizations.name as organization_name,
      api_keys.name, scopes, api_keys.created_at, expires_at, revoked_at
    from api_keys
    join organizations on organizations.id = organization_id
    where ${organizationId}::bigint is null or organization_id = ${organizationId}
    order by organization_id, api_keys.id`);
  return rows;
}

/** Returns false if there is no such key. A second call changes nothing. */
export async function revokeApiKey(database: Database, id: bigint): Promise<boolean> {
  const { rowCount } = await database.query(
    sql`update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${id}`,
  );
  return rowCount === 1;
}
