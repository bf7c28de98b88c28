/** As much as Linux grants to everybody by default (/proc/sys/fs/pipe-max-size). */
const capacityBytes = 2 ** 20;
/** The number of F_SETPIPE_SZ, which only Linux has. */
const setPipeSize = 1031;

let loading: Promise<Fcntl | null> | null = null;

/**
 * Lets a pipe hold 1 MiB rather than 64 KiB: whoever writes to it and whoever reads from it wake
 * each other up a sixteenth as often, which takes longer than the copying itself. It stays as it is
 * where it cannot be enlarged.
 */
export async function enlargePipe(descriptor: number): Promise<void> {
  if (process.platform !== 'linux') return;
  loading ??= loadFcntl();
  const fcntl = await loading;
  fcntl?.(descriptor, setPipeSize, 'int', capacityBytes);
}

type Fcntl = (descriptor: number, command: number, type: 'int', value: number) => number;

/** Node has no such call. Null where the library that makes it has nothing for this processor. */
async function loadFcntl(): Promise<Fcntl | null> {
  try {
    const { default: koffi } = await import('koffi');
    return koffi.load(null).func('int fcntl(int descriptor, int command, ...)') as Fcntl;
  } catch {
    return null;
  }
}
