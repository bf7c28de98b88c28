/**
 * Whether the file is damaged, so that the worker must rebuild it. If only a write failed, DuckDB
 * refuses the open file, but opening it again is enough.
 */
export function isCorruption(error: unknown): boolean {
  return isDamage(error) && (isChecksumFailure(error) || /INTERNAL Error/i.test(String(error)));
}

/** Whether a checksum or a header of the file is wrong. */
export function isChecksumFailure(error: unknown): boolean {
  return /corrupt|checksum|not a valid DuckDB|deserializ/i.test(String(error));
}

/** Whether DuckDB has invalidated the instance with all its files. */
export function isInstanceLost(error: unknown): boolean {
  return /because of a previous fatal error/i.test(String(error));
}

/** Whether the file itself is the reason, and not a missing resource or permission. */
export function isDamage(error: unknown): boolean {
  if (isInstanceLost(error)) return false;
  return !/Too many open files|EMFILE|Permission denied|EACCES|No space left|Disk quota|Out of Memory|Unique file handle conflict/i.test(
    String(error),
  );
}
