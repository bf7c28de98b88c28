import { encodeId } from '../domain/public-id.ts';
import {
  createOrganization,
  deleteOrganization,
  listOrganizationsWithKeys,
  type OrganizationWithKeys,
  requireOrganization,
  sizeOfOrganization,
} from '../postgres/organizations.ts';
import { OperatorError } from '../process/operator-error.ts';
import { createCommand, nameOption, print, runProgram } from './command-line.ts';
import { withDatabase } from './database.ts';
import { formatTable, type PlainTableColumn } from './plain-table.ts';

const program = createCommand('organizations');

/** Together at most 80 characters wide. */
const columns: readonly PlainTableColumn[] = [
  { head: 'organization', width: 16 },
  { head: 'number', width: 12, align: 'right' },
  { head: 'name', width: 28 },
  { head: 'created', width: 10 },
  { head: 'keys', width: 5, align: 'right' },
];

const applicationName = 'crm-data-service organizations';
const rightsToDelete = {
  organizations: 'select, delete',
  purchases: 'select, delete',
  customers: 'select',
  api_keys: 'select',
};

program
  .command('create')
  .description('create an organization and print its id, alone on the last line')
  .requiredOption('--name <name>', 'its name, which /v1/me shows', nameOption)
  .action(async ({ name }: { name: string }) =>
    withDatabase(applicationName, { organizations: 'select, insert' }, async (database) => {
      const id = await createOrganization(database, name);
      console.log(
        `Created ${name}. In the tables, its organization_id is ${id}. Its id in commands:`,
      );
      console.log(encodeId('organization', id));
    }),
  );

program
  .command('list')
  .description('list organizations')
  .option('--json', 'print JSON')
  .action(async (options: { json?: boolean }) =>
    withDatabase(
      applicationName,
      { organizations: 'select', api_keys: 'select' },
      async (database) => {
        const organizations = await listOrganizationsWithKeys(database);
        print(options.json, organizations.map(described), () => asTable(organizations));
      },
    ),
  );

program
  .command('delete <id>')
  .description('delete an organization (org_…) and all rows that belong to it')
  .option('--yes', 'really delete; without it, only say what would be deleted')
  .action(async (publicId: string, options: { yes?: boolean }) =>
    withDatabase(
      applicationName,
      rightsToDelete,
      async (database) => {
        const { id, name } = await requireOrganization(database, publicId);
        const { keys, customers, purchases } = await sizeOfOrganization(database, id);
        const all =
          `${publicId} (${name}) with its API keys (${keys}), customers (${customers}), ` +
          `purchases (${purchases}) and everything else that belongs to it`;
        if (options.yes !== true) {
          throw new OperatorError(
            `Nothing is deleted. With --yes, this command deletes ${all}. This cannot be undone.`,
          );
        }
        console.log(`Deleting ${all}.`);
        await deleteOrganization(database, id);
        console.log(`Deleted ${publicId}. The sync worker removes its files.`);
      },
      null,
    ),
  );

await runProgram(program);

function described({ id, name, created_at, active_keys }: OrganizationWithKeys) {
  return {
    id: encodeId('organization', id),
    organization_id: String(id),
    name,
    created_at: created_at.toISOString(),
    active_keys,
  };
}

function asTable(organizations: readonly OrganizationWithKeys[]): string {
  const rows = organizations
    .map(described)
    .map(({ id, organization_id, name, created_at, active_keys }) => [
      id,
      organization_id,
      name,
      created_at.slice(0, 10),
      active_keys,
    ]);
  return formatTable(columns, rows);
}
