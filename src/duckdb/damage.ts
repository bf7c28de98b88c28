/**
 * A file's own damage, which only building it again can repair. A file that DuckDB will not
 * use any more, because it could not write to it, is whole: to open it again is enough.
 */
export function isCorruption(error: unknown): boolean {
  return isDamage(error) && (isChecksumFailure(error) || /INTERNAL Error/i.test(String(error)));
}

/** What DuckDB says of a block or a header that is not what was written. */
export function isChecksumFailure(error: unknown): boolean {
  return /corrupt|checksum|not a valid DuckDB|deserializ/i.test(String(error));
}

/** The whole instance serves no file any more, because of one: it must be created again. */
export function isInstanceLost(error: unknown): boolean {
  return /because of a previous fatal error/i.test(String(error));
}

/** Whether a file that could not be opened is to be given up: not where only something else is lacking. */
export function isDamage(error: unknown): boolean {
  if (isInstanceLost(error)) return false;
  return !/Too many open files|EMFILE|Permission denied|EACCES|No space left|Disk quota|Out of Memory|Unique file handle conflict/i.test(
    String(error),
  );
}
