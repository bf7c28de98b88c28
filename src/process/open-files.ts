import type { Logger } from 'pino';

/** Enough for a thousand connections and organizations. */
const enough = 4_096;

/** An error of Node or DuckDB. */
export const isOutOfFiles = (error: unknown): boolean =>
  /EMFILE|too many open files/i.test(String(error));

/** Warns if the process may open few files: requests fail at the limit, of every organization. */
export function warnOfFewOpenFiles(log: Logger): void {
  // Otherwise, the report resolves the name of each peer. The types of Node 20 lack the property.
  Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = process.report.getReport() as {
    userLimits?: { open_files?: { soft: number | 'unlimited' } };
  };
  const limit = userLimits?.open_files?.soft ?? 'unlimited';
  if (limit === 'unlimited' || limit >= enough) return;
  log.warn(
    `The process may open only ${limit} files (ulimit -n), and a request beyond that fails. Each ` +
      `connection takes one, each organization in use up to two. Allow ${enough} or more.`,
  );
}
