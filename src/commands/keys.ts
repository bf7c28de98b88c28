import { InvalidArgumentError } from 'commander';
import { formatDuration } from '../domain/duration.ts';
import { decodeId, encodeId } from '../domain/public-id.ts';
import {
  type ApiKey,
  createApiKey,
  listApiKeys,
  revokeApiKey,
  rollApiKey,
  type Scope,
  scopes,
} from '../postgres/keys/api-keys.ts';
import { requireOrganization } from '../postgres/organizations.ts';
import { OperatorError } from '../process/operator-error.ts';
import { createCommand, durationOption, nameOption, print, runProgram } from './command-line.ts';
import { withDatabase } from './database.ts';
import { formatTable } from './plain-table.ts';

const program = createCommand('keys');

const applicationName = 'crm-data-service keys';
const maxOverlapMs = 30 * 86_400_000;
const rights = (keys: string) => ({ organizations: 'select', api_keys: keys });

type CreateOptions = {
  readonly organization: string;
  readonly name: string;
  readonly scope?: readonly Scope[];
  readonly expiresIn?: number;
};

program
  .command('create')
  .description('create a key and print its secret, once, alone on the last line')
  .requiredOption('--organization <id>', "the key's organization (org_…)")
  .requiredOption('--name <name>', "the key's name", nameOption)
  .option('--scope <scope...>', `the key's scopes: ${scopes.join(', ')} (default: read)`, readScope)
  .option('--expires-in <days>', 'days until it expires, such as 90d; never if left out', readDays)
  .action(async (options: CreateOptions) =>
    withDatabase(applicationName, rights('select, insert'), async (database) => {
      const organization = await requireOrganization(database, options.organization);
      const { expiresIn } = options;
      const { id, secret } = await createApiKey(database, {
        organizationId: organization.id,
        name: options.name,
        scopes: options.scope ?? ['read'],
        expiresAt: expiresIn === undefined ? null : new Date(Date.now() + expiresIn * 86_400_000),
      });
      const expiry =
        expiresIn === undefined
          ? 'It never expires, because --expires-in is left out.'
          : `It expires in ${expiresIn} ${expiresIn === 1 ? 'day' : 'days'}.`;
      console.log(
        `Created ${encodeId('api_key', id)} for ${organization.name}. ${expiry} Its secret cannot be shown again:`,
      );
      console.log(secret);
    }),
  );

program
  .command('list')
  .description('list keys')
  .option('--organization <id>', 'only of this one (org_…)')
  .option('--json', 'print JSON')
  .action(async (options: { organization?: string; json?: boolean }) =>
    withDatabase(applicationName, rights('select'), async (database) => {
      const organization =
        options.organization === undefined
          ? null
          : await requireOrganization(database, options.organization);
      const keys = await listApiKeys(database, organization?.id ?? null);
      print(options.json, keys.map(described), () => asTable(keys));
    }),
  );

program
  .command('roll <id>')
  .description('replace a key (bak_…) by a new one, and print its secret, once, on the last line')
  .requiredOption(
    '--overlap <time>',
    'how long the old key still works, such as 24h; 0: not at all',
    readOverlap,
  )
  .action(async (publicId: string, { overlap }: { overlap: number }) =>
    withDatabase(applicationName, rights('select, insert, update'), async (database) => {
      const id = decodeId('api_key', publicId);
      const rolled = id === null ? 'unknown' : await rollApiKey(database, id, overlap);
      if (rolled === 'unknown') throw unknownKey(publicId);
      if (typeof rolled === 'string') {
        throw new OperatorError(
          `${publicId} is ${rolled} already. \`npx crm-data-service keys create\` makes a new key.`,
        );
      }
      if ('replacement' in rolled) {
        const replacement = encodeId('api_key', rolled.replacement);
        throw new OperatorError(
          `${publicId} was rolled before: ${replacement} replaces it. Roll that key, ` +
            `or end the overlap with \`npx crm-data-service keys revoke ${publicId}\`.`,
        );
      }
      console.log(
        `Created ${encodeId('api_key', rolled.id)} in place of ${publicId}, which expires at ` +
          `${rolled.oldExpiresAt.toISOString()}. The new secret cannot be shown again:`,
      );
      console.log(rolled.secret);
    }),
  );

program
  .command('revoke <id>')
  .description('revoke a key (bak_…); it is refused from the next request on')
  .action(async (publicId: string) =>
    withDatabase(applicationName, rights('select, update'), async (database) => {
      const id = decodeId('api_key', publicId);
      if (id === null || !(await revokeApiKey(database, id))) {
        throw unknownKey(publicId);
      }
      console.log(`Revoked ${publicId}.`);
    }),
  );

await runProgram(program);

function unknownKey(publicId: string): OperatorError {
  return new OperatorError(
    `There is no key ${publicId}; \`npx crm-data-service keys list\` shows all.`,
  );
}

function described(key: ApiKey) {
  return {
    id: encodeId('api_key', key.id),
    organization: encodeId('organization', key.organization_id),
    organization_name: key.organization_name,
    name: key.name,
    scopes: key.scopes,
    state: stateOf(key),
    created_at: key.created_at.toISOString(),
    expires_at: key.expires_at?.toISOString() ?? null,
    revoked_at: key.revoked_at?.toISOString() ?? null,
    last_used_at: key.last_used_at?.toISOString() ?? null,
    replaces: key.replaces === null ? null : encodeId('api_key', key.replaces),
  };
}

function stateOf({ revoked_at, expires_at }: ApiKey): 'active' | 'expired' | 'revoked' {
  if (revoked_at !== null) return 'revoked';
  return expires_at !== null && expires_at.getTime() <= Date.now() ? 'expired' : 'active';
}

/** Together at most 80 characters wide. */
function asTable(keys: readonly ApiKey[]): string {
  const columns = [
    { head: 'key\nname', width: 22 },
    { head: 'organization\nname', width: 20 },
    { head: 'state\nscopes', width: 17 },
    { head: 'created\nlast used', width: 13 },
  ];
  const secondsSince = (time: string) => (Date.now() - Date.parse(time)) / 1000;
  const rows = keys.map(described).map(({ state, expires_at, last_used_at, ...key }) => {
    const expiry = expires_at && formatDuration(-Math.floor(secondsSince(expires_at)));
    const use = last_used_at && formatDuration(Math.max(0, Math.floor(secondsSince(last_used_at))));
    return [
      `${key.id}\n${key.name}`,
      `${key.organization}\n${key.organization_name}`,
      `${state === 'active' ? (expiry ? `expires in ${expiry}` : 'never expires') : state}\n${key.scopes.join(', ')}`,
      `${key.created_at.slice(0, 10)}\n${use ? `${use} ago` : 'never'}`,
    ];
  });
  return formatTable(columns, rows);
}

function readScope(text: string, previous: readonly Scope[] = []): readonly Scope[] {
  const scope = scopes.find((known) => known === text);
  if (scope === undefined)
    throw new InvalidArgumentError(`It must be one of ${scopes.join(', ')}.`);
  return [...new Set([...previous, scope])];
}

function readDays(text: string): number {
  const days = /^(\d{1,5})d$/.exec(text)?.[1];
  if (days === undefined || Number(days) === 0) {
    throw new InvalidArgumentError('It must be a number of days, such as 90d.');
  }
  return Number(days);
}

function readOverlap(text: string): number {
  const milliseconds = /^0[smhd]?$/.test(text) ? 0 : durationOption(text);
  if (milliseconds <= maxOverlapMs) return milliseconds;
  throw new InvalidArgumentError('It must be at most 30d.');
}
