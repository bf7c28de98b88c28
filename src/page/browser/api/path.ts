type Parameters = Readonly<Record<string, string | undefined>>;

/** The path and query of a request. Parameters without a value are omitted. */
export function pathOf(path: string, parameters: Parameters = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(given as [string, string][]).toString();
  return `/v1${path}${query === '' ? '' : `?${query}`}`;
}
