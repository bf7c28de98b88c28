import type { Connection } from '../connection/pool.ts';
import { letWritersAppend } from '../mapping/triggers.ts';
import { definerFunctions } from './role-rights.ts';

/**
 * Lets nobody else execute the functions with the rights of their owner, and takes these rights from the
 * functions of a mapping, which had them in earlier releases. Changes only what differs: a changed function of
 * capture causes a rebuild.
 */
export async function restrictFunctions(connection: Connection): Promise<void> {
  const { rows } = await connection.query<{
    name: string;
    isOfMapping: boolean;
    isDefiner: boolean;
    isPublic: boolean;
  }>(
    `select oid::regprocedure::text as name, proname <> all ($1) as "isOfMapping",
       prosecdef as "isDefiner", has_function_privilege('public', oid, 'execute') as "isPublic"
     from pg_proc
     where pronamespace = current_schema()::regnamespace and pg_has_role(proowner, 'usage')
       and (proname = any ($1) or proname ~ '^(map_rows|find_keys)_of ')`,
    [definerFunctions],
  );
  // Also after a restore without rights: without this one, writes of the shop fail.
  if (rows.some(({ isOfMapping }) => isOfMapping)) await letWritersAppend(connection);
  for (const { name, isOfMapping, isDefiner, isPublic } of rows) {
    if (!isOfMapping && isPublic) {
      await connection.query(`revoke execute on function ${name} from public`);
    } else if (isOfMapping && isDefiner) {
      await connection.query(`alter function ${name} security invoker`);
      await connection.query(`grant execute on function ${name} to public`);
    }
  }
}
