import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { builtProgram, packageFile } from '../process/package-files.ts';
import { createProgram, runProgram } from './command-line.ts';
import { type CommandName, commands, isCommandName } from './commands.ts';

// `crm-data-service <command>` (crm-data-service.cjs). A process loads the modules of its command alone: the API
// needs no demo data. `src` does not import `sync`.

const [node = '', file = '', name, ...rest] = process.argv;

if (isCommandName(name)) {
  process.argv = [node, file, ...rest];
  await import(pathToFileURL(builtProgram(sourceOf(name))).href);
} else {
  await runProgram(overview());
}

function sourceOf(command: CommandName): string {
  return command === 'sync' ? 'sync/main.ts' : `src/commands/${command}.ts`;
}

/** Prints the help or the version. Any other argument is an error. */
function overview() {
  const { description, version } = JSON.parse(
    readFileSync(packageFile('package.json'), 'utf8'),
  ) as { readonly description: string; readonly version: string };
  const program = createProgram('crm-data-service', description)
    .usage('<command> [options]')
    .version(version, '--version', 'print the version')
    .helpCommand(false)
    .addHelpText(
      'after',
      [
        '',
        'Try it, with demo data:  npx crm-data-service start',
        'Options of a command:    npx crm-data-service <command> --help',
        '',
        'Settings are environment variables. DATABASE_URL names the Postgres, and',
        'DATA_DIR the folder of the files, `data` of the current folder by default.',
        `Documents: ${packageFile('README.md')}`,
      ].join('\n'),
    );
  for (const [command, summary] of Object.entries(commands)) {
    program.command(command).description(summary);
  }
  return program;
}
