const unitBytes: Readonly<Record<string, number>> = {
  MB: 1e6,
  GB: 1e9,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};

/** The bytes of a size of DuckDB such as `512MB` or `2GiB`. */
export function bytesOf(size: string): number {
  const [, number, unit = ''] = /^(\d+)(\w+)$/.exec(size) ?? [];
  return Number(number) * (unitBytes[unit] ?? Number.NaN);
}

export function isOutOfMemory(error: unknown): boolean {
  return /out of memory|failed to allocate/i.test(String(error));
}
