import type { Connection, Database } from '../connection/pool.ts';
import {
  type FoundFunction,
  type RightsOfRole,
  type RoleNames,
  readDefinerFunctions,
  readRights,
} from './read-rights.ts';
import { definerFunctions, type Role, roleRights, roles } from './role-rights.ts';

/** How the rights of a database differ from `roleRights`, and the statement that corrects it. */
type RightsFinding = {
  readonly message: string;
  readonly advice: string;
};

/** Powers that a role may have beside its rights. */
const optionalPowers: Readonly<Record<Role, readonly string[]>> = {
  api: ['member of pg_read_all_stats'],
  worker: ['bypassrls'],
  writer: [],
  public: [],
};

export async function checkRights(
  database: Database | Connection,
  names: RoleNames,
): Promise<RightsFinding[]> {
  const found = await readRights(database, names);
  const ofAll = found.find(({ role }) => role === 'public');
  const { rows } = await database.query<{ schema: string; isMapped: boolean }>(
    `select quote_ident(current_schema()) as schema, exists (select from mapping_state) as "isMapped"`,
  );
  const { schema = 'public', isMapped = false } = rows[0] ?? {};
  const findings = found.flatMap((role) => [
    ...checkPowers(role, schema, ofAll),
    ...checkRelations(role, ofAll, isMapped),
  ]);
  return [...findings, ...checkFunctions(await readDefinerFunctions(database))];
}

function checkPowers(
  { role, name, exists, powers, canUseSchema, canCreate }: RightsOfRole,
  schema: string,
  ofAll: RightsOfRole | undefined,
): RightsFinding[] {
  if (!exists) {
    return [finding(`There is no role ${name}.`, `Name the one of the ${role}: --${role}-role …`)];
  }
  const findings = powers
    .filter((power) => !optionalPowers[role].includes(power))
    .filter((power) => role === 'public' || !ofAll?.powers.includes(power))
    .map((power) => finding(`${name} has ${power}.`, revokePower(name, power)));
  if (canCreate && (role === 'public' || ofAll?.canCreate === false)) {
    findings.push(
      finding(
        `${name} may create objects in the schema ${schema}.`,
        `revoke create on schema ${schema} from ${name};`,
      ),
    );
  }
  if (!canUseSchema && role !== 'public') {
    findings.push(
      finding(
        `${name} may not use the schema ${schema}.`,
        `grant usage on schema ${schema} to ${name};`,
      ),
    );
  }
  return findings;
}

function revokePower(name: string, power: string): string {
  const [, granted] = /^member of (.*)$/.exec(power) ?? [];
  if (granted !== undefined) return `revoke ${granted} from ${name};`;
  if (power.startsWith('create on')) return `revoke ${power} from ${name};`;
  return `alter role ${name} no${power};`;
}

function checkRelations(
  { role, name, exists, powers, relations }: RightsOfRole,
  ofAll: RightsOfRole | undefined,
  isMapped: boolean,
): RightsFinding[] {
  // A superuser has every right, which is a finding already.
  if (!exists || powers.includes('superuser')) return [];
  const findings: RightsFinding[] = [];
  const allowed = rightsOn(roleRights.filter((each) => each.role === role));
  for (const [relation, rights] of Object.entries(relations)) {
    const others = role === 'public' ? [] : (ofAll?.relations[relation] ?? []);
    const surplus = rights.filter(
      (right) => !others.includes(right) && !covers(allowed.get(relation) ?? [], right),
    );
    if (surplus.length === 0) continue;
    const list = surplus.join(', ');
    findings.push(
      finding(`${name} has ${list} on ${relation}.`, `revoke ${list} on ${relation} from ${name};`),
    );
  }
  const isNeeded = (use: (typeof roleRights)[number]['for']) =>
    use === null || (use === 'a mapping' && isMapped);
  const needed = rightsOn(roleRights.filter((each) => each.role === role && isNeeded(each.for)));
  for (const [relation, rights] of needed) {
    const missing = rights.filter((right) => !(relations[relation] ?? []).includes(right));
    if (missing.length === 0) continue;
    const list = missing.join(', ');
    findings.push(
      finding(`${name} lacks ${list} on ${relation}.`, `grant ${list} on ${relation} to ${name};`),
    );
  }
  return findings;
}

/** The rights on each relation. */
function rightsOn(wanted: typeof roleRights): Map<string, string[]> {
  const rights = new Map<string, string[]>();
  for (const { rights: list, on } of wanted) {
    for (const relation of on) {
      rights.set(relation, [...new Set([...(rights.get(relation) ?? []), ...list.split(', ')])]);
    }
  }
  return rights;
}

/** A right on a table is one on each of its columns. */
const covers = (allowed: readonly string[], right: string): boolean =>
  allowed.includes(right) || allowed.includes(right.replace(/ \(.*/, ''));

function checkFunctions(found: readonly FoundFunction[]): RightsFinding[] {
  return found.flatMap(({ name, owner, executors }) => {
    if (!definerFunctions.includes(name)) {
      return [
        finding(
          `The function ${name} runs with the rights of ${owner}.`,
          `alter function ${name} security invoker;`,
        ),
      ];
    }
    return executors.map((role) =>
      finding(
        `${role} may execute ${name}, which runs with the rights of ${owner}.`,
        `revoke execute on function ${name} from ${role};`,
      ),
    );
  });
}

const finding = (message: string, advice: string): RightsFinding => ({ message, advice });

/** The names of the roles beside the owner, by the name of the owner: `shop_api` of `shop_migrations`. */
export function roleNamesOf(owner: string): RoleNames {
  const prefix = /^(.*)migrations$/.exec(owner)?.[1] ?? 'shop_';
  const named = roles.map((role) => [role, role === 'public' ? role : prefix + role]);
  return Object.fromEntries(named) as RoleNames;
}
