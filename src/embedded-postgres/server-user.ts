import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { OperatorError } from '../process/operator-error.ts';

/** The embedded Postgres cannot run. `reason` completes the message. */
export class EmbeddedPostgresError extends OperatorError {
  override readonly name = 'EmbeddedPostgresError';

  constructor(reason: string) {
    super(
      `The embedded Postgres cannot start: ${reason}. ` +
        'Set DATABASE_URL=postgres://user:password@host:5432/database to use one of your own.',
    );
  }
}

/** The account that the server's processes run under. */
export type ServerUser = { readonly uid: number; readonly gid: number };

/**
 * The account for the server if this process runs as root, because Postgres refuses to run as root;
 * undefined for the account of this process.
 */
export function serverUser(): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readFileSync('/etc/passwd', 'utf8').split('\n');
  for (const name of ['postgres', 'nobody']) {
    const fields = accounts.find((line) => line.startsWith(`${name}:`))?.split(':');
    if (fields !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) };
  }
  throw new EmbeddedPostgresError(
    'Postgres does not run as root, and there is no user postgres or nobody to run it as',
  );
}

/** Creates the folder and gives it to `user`. Returns whether `user` can write to it. */
export function makeDirectoryFor(user: ServerUser | undefined, directory: string): boolean {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (user === undefined) return true;
  const { uid: owner } = statSync(directory);
  if (owner !== 0 && owner !== user.uid) {
    // A change of the owner would deny the folder to its present owner.
    throw new EmbeddedPostgresError(
      `${directory} belongs to the user ${owner}: start as that user, or with another DATA_DIR`,
    );
  }
  chownSync(directory, user.uid, user.gid);
  const script = 'cd "$1" && test -w .';
  return spawnSync('/bin/sh', ['-c', script, 'sh', directory], { ...user, cwd: '/' }).status === 0;
}
