/** Codes of Node, and texts of DuckDB. */
const conditions: readonly (readonly [RegExp, string])[] = [
  [/ENOSPC|EDQUOT|No space left|Disk quota/i, 'Free space or inodes (df, df -i).'],
  [
    /EMFILE|ENFILE|too many open files/i,
    'Raise the limit of open files (ulimit -n), and restart the process.',
  ],
  [/EROFS|read-only file system/i, 'Mount the file system read-write.'],
  [
    /EACCES|EPERM|permission denied/i,
    'Run this process as the user that owns the folder, or give the folder to its user.',
  ],
  [
    /EISDIR|ENOTDIR|EEXIST|ELOOP|is a directory|not a directory|too many levels of symbolic/i,
    'Something else is at this path or at a folder of it, such as a folder instead of a file: move it away.',
  ],
  [/\bEIO\b|input\/output error/i, 'Check the disk.'],
];

/** What to do about an error of the file system; null if that is not known. */
export function fileAdvice(error: unknown): string | null {
  const { code, message } = error as NodeJS.ErrnoException;
  return conditions.find(([known]) => known.test(code ?? message))?.[1] ?? null;
}

/** The message of an error, and what to do about it if that is known. */
export function withFileAdvice(error: Error): string {
  const advice = fileAdvice(error);
  return advice === null ? error.message : `${error.message}. ${advice}`;
}
