/** Why the service is not ready, in the words of its operators; null if it is, or does not respond. */
export async function readProblem(): Promise<string | null> {
  const response = await fetch('/readyz', { cache: 'no-store' }).catch(() => null);
  const body = await response?.json().catch(() => null);
  return (body as { readonly problem?: string } | null)?.problem ?? null;
}
