/**
 * Whether the file is damaged, so that the worker must rebuild it. If only a write failed, DuckDB
 * refuses the open file, but opening it again is enough.
 */
export function isCorruption(error: unknown): boolean {
  const isFound =
    /corrupt|checksum|not a valid DuckDB|deserializ|could not read|INTERNAL Error|the log is damaged/i;
  return isDamage(error) && isFound.test(String(error));
}

/** Whether DuckDB has invalidated the instance with all its files, because of an earlier error. */
export function isInstanceLost(error: unknown): boolean {
  return /because of a previous fatal error/i.test(String(error));
}

/** Whether the error makes DuckDB invalidate the instance, or the instance is invalid already. */
export function invalidatesInstance(error: unknown): boolean {
  return /(INTERNAL|FATAL) Error/i.test(String(error));
}

/** Whether the file itself is the reason, and not a missing resource or permission. */
export function isDamage(error: unknown): boolean {
  if (isInstanceLost(error)) return false;
  return !/Too many open files|EMFILE|Permission denied|EACCES|No space left|Disk quota|Out of Memory|Unique file handle conflict/i.test(
    String(error),
  );
}
