import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs, { mkdirSync } from 'node:fs';
import { open, rm, statfs, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

/** A small tmpfs, or a folder if the process may not mount one. */
export type Disk = {
  readonly path: string;
  /** False for a folder. */
  readonly canBeFilled: boolean;
  /** Fills the disk up to this number of free bytes. */
  fill(freeBytes: number): Promise<void>;
  /** Creates files up to this number of free inodes. */
  fillInodes(free: number): Promise<void>;
  /** Removes what `fill` and `fillInodes` have written. */
  free(): Promise<void>;
  unmount(): Promise<void>;
};

const mebibyte = 2 ** 20;

// Unmounts the disk when its standard input closes, so also if this process is killed.
const keeperScript = `
  mount -t tmpfs -o size="$2",nr_inodes=10000 tmpfs "$1" 2>/dev/null || exit 1
  echo mounted
  while read -r _; do :; done
  umount "$1" 2>/dev/null || umount -l "$1"
`;

/** Mounts a tmpfs. Only root on Linux may do this. */
export async function mountDisk(path: string, mebibytes: number): Promise<Disk> {
  mkdirSync(path, { recursive: true });
  const keeper = await mountTemporarily(path, mebibytes);
  const filler = join(path, 'filler');
  return {
    path,
    canBeFilled: keeper !== null,
    async fill(freeBytes) {
      const file = await open(filler, 'a');
      try {
        const block = Buffer.alloc(mebibyte);
        for (;;) {
          const { bavail, bsize } = await statfs(path);
          const left = bavail * bsize - freeBytes;
          if (left <= 0) return;
          await file.write(block, 0, Math.min(left, mebibyte));
        }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        await file.close();
      }
    },
    async fillInodes(free) {
      const folder = join(path, 'empty');
      mkdirSync(folder, { recursive: true });
      const { ffree } = await statfs(path);
      for (let left = ffree; left > free; left -= 1) await writeFile(join(folder, `${left}`), '');
    },
    async free() {
      await rm(filler, { force: true });
      await rm(join(path, 'empty'), { recursive: true, force: true });
    },
    async unmount() {
      if (keeper === null) return;
      const ended = once(keeper, 'exit');
      keeper.stdin?.end();
      await ended;
    },
  };
}

async function mountTemporarily(path: string, mebibytes: number): Promise<ChildProcess | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null;
  const keeper = spawn('/bin/sh', ['-c', keeperScript, 'sh', path, `${mebibytes}m`], {
    stdio: ['pipe', 'pipe', 'ignore'],
    // Ctrl-C in a terminal must not kill the process before it unmounts.
    detached: true,
  });
  const [output] = await Promise.race([once(keeper.stdout, 'data'), once(keeper, 'exit')]);
  return String(output).includes('mounted') ? keeper : null;
}

/**
 * Runs `work` while the disk seems to have space whenever the worker looks: another process fills it
 * after each look, so that writes fail.
 */
export async function withUnnoticedFullDisk<Result>(work: () => Promise<Result>): Promise<Result> {
  const { statfsSync: original } = fs;
  const pretended = (path: string) => {
    const found = original(path);
    return { ...found, bsize: found.bsize, bavail: found.blocks };
  };
  fs.statfsSync = pretended as typeof original;
  syncBuiltinESMExports();
  try {
    return await work();
  } finally {
    fs.statfsSync = original;
    syncBuiltinESMExports();
  }
}
