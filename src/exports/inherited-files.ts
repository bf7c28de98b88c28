import { closeSync, readdirSync, readFileSync } from 'node:fs';

const closesAtExec = 0o2000000;

/**
 * Closes the files that this process has inherited, beyond the first descriptors, which are its own. DuckDB
 * opens files without O_CLOEXEC, so a child of the API has files of all organizations. Node opens its
 * own files with that flag. On macOS, libuv starts a child with its own descriptors only.
 */
export function closeInheritedFiles(ownDescriptors: number): void {
  if (process.platform !== 'linux') return;
  for (const descriptor of readdirSync('/proc/self/fd').map(Number)) {
    if (descriptor >= ownDescriptors && isInherited(descriptor)) closeSync(descriptor);
  }
}

function isInherited(descriptor: number): boolean {
  try {
    const [, flags = ''] =
      /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & closesAtExec) === 0;
  } catch {
    // The descriptor that has listed the others is closed.
    return false;
  }
}
