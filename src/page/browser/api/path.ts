type Parameters = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Parameters as text. One with several values is given several times, and one without a value is omitted. */
export function queryOf(parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value = []] of Object.entries(parameters)) {
    for (const one of [value].flat()) query.append(name, one);
  }
  return query.toString();
}

/** The path and query of a request. */
export function pathOf(path: string, parameters: Parameters = {}): string {
  const query = queryOf(parameters);
  return `/v1${path}${query === '' ? '' : `?${query}`}`;
}
