import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { packageFile } from '../../src/process/package-files.ts';

export type InstalledPackage = {
  /** The folder with `node_modules`. */
  readonly folder: string;
  /** The paths of the tarball's files. */
  readonly files: readonly string[];
  /** The command that npm links in `node_modules/.bin`. */
  readonly commandLine: string;
};

type Packed = readonly [{ readonly filename: string; readonly files: readonly { path: string }[] }];

/** Packs what the tests have built into a tarball in the folder. */
export function pack(folder: string): { tarball: string; files: readonly string[] } {
  const output = execFileSync(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--offline', '--pack-destination', folder],
    {
      cwd: packageFile('.'),
      encoding: 'utf8',
      // The cache of npm may be another user's.
      env: { ...process.env, npm_config_cache: join(folder, 'npm-cache') },
    },
  );
  const [{ filename, files }] = JSON.parse(output) as Packed;
  return { tarball: join(folder, filename), files: files.map(({ path }) => path) };
}

/**
 * Installs a tarball into an empty folder as npm does, without a registry: the dependencies that its package.json
 * names are links to those of this project. Node finds no other dependency of the project.
 */
export function install(tarball: string, folder: string): string {
  const modules = join(folder, 'node_modules');
  const directory = join(modules, 'crm-data-service');
  mkdirSync(directory, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '-C', directory, '--strip-components=1']);
  const { bin, dependencies } = JSON.parse(
    readFileSync(join(directory, 'package.json'), 'utf8'),
  ) as { bin: Record<string, string>; dependencies: Record<string, string> };
  for (const name of Object.keys(dependencies)) {
    const link = join(modules, name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(packageFile(join('node_modules', name)), link);
  }
  const commandLine = join(modules, '.bin', 'crm-data-service');
  mkdirSync(dirname(commandLine));
  symlinkSync(join('..', 'crm-data-service', bin['crm-data-service'] ?? ''), commandLine);
  return commandLine;
}

export function packAndInstall(folder: string): InstalledPackage {
  const { tarball, files } = pack(folder);
  const installed = join(folder, 'installed');
  return { folder: installed, files, commandLine: install(tarball, installed) };
}
