const unitBytes: Readonly<Record<string, number>> = {
  MB: 1e6,
  GB: 1e9,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};

/** A size as DuckDB takes it, such as `512MB` or `2GiB`, in bytes. */
function bytesOf(size: string): number {
  const [, number, unit = ''] = /^(\d+)(\w+)$/.exec(size) ?? [];
  return Number(number) * (unitBytes[unit] ?? Number.NaN);
}

/**
 * How many files stay open while nobody uses them, where of the memory that DuckDB may
 * use there is to be so much for each. A part of what it keeps of a file, a quarter of a
 * MiB for each of its row groups in which rows were deleted, is not let go of before the
 * file is closed.
 */
export function maxIdle(memoryLimit: string, bytesOfEach: number): number {
  return Math.max(1, Math.floor(bytesOf(memoryLimit) / bytesOfEach));
}

/** Whether DuckDB lacked memory, which it may have once something else is let go of. */
export function isOutOfMemory(error: unknown): boolean {
  return /out of memory|failed to allocate/i.test(String(error));
}
