import type { Command } from 'commander';
import { mappingStatusRights, readMappingStatus } from '../postgres/mapping/mapping-status.ts';
import { withDatabase } from './database.ts';
import { formatMappingStatus } from './mapping-status-text.ts';

const unmapped = 'There is no mapping. `npm run mapping -- apply` creates one.';

export function addStatusCommand(program: Command): void {
  program
    .command('status')
    .description('show how fresh the mapped rows are, refused rows and held deletions')
    .option('--json', 'print JSON')
    .action(async (options: { readonly json?: boolean }) =>
      withDatabase('crm-data-service mapping', mappingStatusRights, async (database) => {
        const status = await readMappingStatus(database);
        const text = () => (status === null ? unmapped : formatMappingStatus(status).join('\n'));
        console.log(options.json === true ? JSON.stringify(status, null, 2) : text());
      }),
    );
}
