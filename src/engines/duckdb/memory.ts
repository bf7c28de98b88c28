const unitBytes: Readonly<Record<string, number>> = {
  MB: 1e6,
  GB: 1e9,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};

/** A size as DuckDB writes it, such as `512MB` or `2GiB`, in bytes. */
function bytesOf(size: string): number {
  const [, number, unit = ''] = /^(\d+)(\w+)$/.exec(size) ?? [];
  return Number(number) * (unitBytes[unit] ?? Number.NaN);
}

/**
 * What DuckDB keeps in memory of a small file that questions are put to. Of a file in
 * which rows were deleted a part of that is not let go of before the file is detached.
 */
const bytesOfEach = 2 ** 20;

/** How many organizations' files are attached at a time, at the most, where nobody uses them. */
export function mostAttached(memoryLimit: string): number {
  return Math.max(1, Math.floor(bytesOf(memoryLimit) / bytesOfEach));
}

/** Whether DuckDB lacked memory, which it may have once something else is let go of. */
export function isOutOfMemory(error: unknown): boolean {
  return /out of memory|failed to allocate/i.test(String(error));
}
