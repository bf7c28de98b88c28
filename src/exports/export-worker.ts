import { errorText } from '../process/error-text.ts';
import { createLog, logProcessEvents } from '../process/log.ts';
import { closeInheritedFiles } from './inherited-files.ts';
import { type ExportJob, runJob } from './run-job.ts';

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
