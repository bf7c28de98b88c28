import { errorText } from '../error-text.ts';
import type { ExportFailure, ExportJob } from './job.ts';
import { runJob } from './run-job.ts';

// Started by the API (export-process.ts), which ends it. A terminal's Ctrl-C reaches both.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});
// Nobody is left who reads; DuckDB's threads are not asked.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));

process.once('message', async (order: ExportJob) => {
  try {
    await runJob(order);
    process.exit(0);
  } catch (error) {
    const told: ExportFailure = { failure: errorText(error) };
    process.send?.(told, () => process.exit(1));
  }
});
