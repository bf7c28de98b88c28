import sql from 'sql-template-tag';
import { decodeId, encodeId } from '../domain/public-id.ts';
import { OperatorError } from '../process/operator-error.ts';
import type { Database } from './connection/pool.ts';

export type OrganizationRow = { readonly id: bigint; readonly name: string };

export async function listOrganizations(database: Database): Promise<OrganizationRow[]> {
  const { rows } = await database.query<OrganizationRow>(
    'select id, name from organizations order by id',
  );
  return rows;
}

export type OrganizationWithKeys = OrganizationRow & {
  readonly created_at: Date;
  /** Neither expired nor revoked. */
  readonly active_keys: number;
};

export async function listOrganizationsWithKeys(
  database: Database,
): Promise<OrganizationWithKeys[]> {
  const { rows } = await database.query<OrganizationWithKeys>(`
    select id, name, created_at, (
        select count(*)::integer from api_keys
        where organization_id = organizations.id and revoked_at is null
          and (expires_at is null or expires_at > now())
      ) as active_keys
    from organizations order by id`);
  return rows;
}

/** Rejects with OperatorError if no organization has this public id. */
export async function requireOrganization(
  database: Database,
  publicId: string,
): Promise<OrganizationRow> {
  const id = decodeId('organization', publicId);
  const { rows } = await database.query<OrganizationRow>(
    sql`select id, name from organizations where id = ${id}`,
  );
  if (rows[0] === undefined) {
    const known = (await listOrganizations(database)).slice(0, 5);
    const names = known.map(({ id, name }) => `${encodeId('organization', id)} (${name})`);
    throw new OperatorError(
      `There is no organization ${publicId}. There is: ${names.join(', ') || 'none yet'}.`,
    );
  }
  return rows[0];
}

export async function createOrganization(database: Database, name: string): Promise<bigint> {
  const { rows } = await database.query<{ id: bigint }>(
    sql`insert into organizations (name) values (${name}) returning id`,
  );
  return (rows[0] as { id: bigint }).id;
}

type OrganizationSize = {
  readonly keys: bigint;
  readonly customers: bigint;
  readonly purchases: bigint;
};

export async function sizeOfOrganization(
  database: Database,
  id: bigint,
): Promise<OrganizationSize> {
  const { rows } = await database.query<OrganizationSize>(sql`
    select (select count(*) from api_keys where organization_id = ${id}) as keys,
      (select count(*) from customers where organization_id = ${id}) as customers,
      (select count(*) from purchases where organization_id = ${id}) as purchases`);
  return rows[0] as OrganizationSize;
}

/**
 * Deletes the organization with all its rows. Purchases have a DELETE of their own: the cascade
 * would fire the statement trigger once for each customer, and would miss purchases that reference
 * a customer of another organization.
 */
export async function deleteOrganization(database: Database, id: bigint): Promise<void> {
  await database.query(sql`
    with deleted_purchases as (delete from purchases where organization_id = ${id})
    delete from organizations where id = ${id}`);
}
