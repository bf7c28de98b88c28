import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';

/** A small disk that can be filled up; where none can be mounted, only a folder. */
export type Disk = {
  readonly path: string;
  readonly canBeFilled: boolean;
  /** Fills it until only so much is free. */
  fill(freeBytes: number): Promise<void>;
  /** Frees what was filled. */
  free(): Promise<void>;
  unmount(): Promise<void>;
};

const mebibyte = 2 ** 20;

// It unmounts when its standard input closes: when this process ends in any way.
const keeperScript = `
  mount -t tmpfs -o size="$2" tmpfs "$1" 2>/dev/null || exit 1
  echo mounted
  while read -r _; do :; done
  umount "$1" 2>/dev/null || umount -l "$1"
`;

/** Mounts a disk in the memory, which root on Linux may. */
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
    free: () => rm(filler, { force: true }),
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
    // A terminal's Ctrl-C must not keep it from unmounting.
    detached: true,
  });
  const [news] = await Promise.race([once(keeper.stdout, 'data'), once(keeper, 'exit')]);
  return String(news).includes('mounted') ? keeper : null;
}
