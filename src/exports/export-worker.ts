import { closeSync, readdirSync, readFileSync } from 'node:fs';
import { errorText } from '../process/error-text.ts';
import { createLog, logProcessEvents } from '../process/log.ts';
import { type ExportJob, runJob } from './run-job.ts';

const closesAtExec = 0o2000000;

/**
 * Closes the files that this process has inherited, beyond the first descriptors, which are its own. DuckDB
 * opens files without O_CLOEXEC, so a child of the API has files of all organizations. Node opens its
 * own files with that flag. On macOS, libuv starts a child with its own descriptors only.
 */
function closeInheritedFiles(ownDescriptors: number): void {
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

// The API passes the number of descriptors that are this process's own.
closeInheritedFiles(Number(process.argv[2]));

logProcessEvents(createLog('export', 'info'));

// The API starts and ends this process (export-process.ts). Ctrl-C in a terminal reaches both.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});
// After a disconnect, no process reads the pipe. An exit would wait for DuckDB's threads.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));

process.once('message', async (job: ExportJob) => {
  try {
    await runJob(job);
    process.exit(0);
  } catch (error) {
    process.send?.(errorText(error), () => process.exit(1));
  }
});
