import sql from 'sql-template-tag';
import { decodeId, encodeId } from '../domain/public-id.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database } from './pool.ts';

export type Organization = { readonly id: bigint; readonly name: string };

export async function listOrganizations(database: Database): Promise<Organization[]> {
  const { rows } = await database.query<Organization>(
    'select id, name from organizations order by id',
  );
  return rows;
}

/** The organization an operator named by its public id. */
export async function requireOrganization(
  database: Database,
  publicId: string,
): Promise<Organization> {
  const id = decodeId('organization', publicId);
  const { rows } = await database.query<Organization>(
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
