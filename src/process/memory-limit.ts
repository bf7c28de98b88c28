import type { Logger } from 'pino';

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;

/**
 * Warns if the container's memory limit is less than the settings need: the kernel kills a process that
 * reaches it. Without a limit, Node states a number that no machine has.
 */
export function warnOfLittleMemory(
  log: Logger,
  neededBytes: number,
  limitBytes: number | undefined = process.constrainedMemory(),
): void {
  if (limitBytes === undefined || limitBytes === 0 || limitBytes >= neededBytes) return;
  log.warn(
    `The memory limit is ${mebibytes(limitBytes)}, and the settings need ${mebibytes(neededBytes)}. ` +
      'Raise the limit, or lower DUCKDB_MEMORY_LIMIT.',
  );
}
