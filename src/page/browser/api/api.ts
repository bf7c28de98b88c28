import { texts } from '../language/language.ts';
import { exclusion, filterNamed } from '../view/filters.ts';
import { parseExactly } from './exact-json.ts';
import { readKey } from './key.ts';
import { ApiProblem } from './problem.ts';

let reportRefusedKey: (problem: string) => void = () => {};

/** Sets what happens if the service refuses the key. */
export function onKeyRefused(listener: (problem: string) => void): void {
  reportRefusedKey = listener;
}

/** Sends a request with the key. Rejects with ApiProblem unless the response is a success. */
export async function send(path: string, signal?: AbortSignal): Promise<Response> {
  const headers = { Authorization: `Bearer ${readKey() ?? ''}` };
  // Personal data do not belong in the browser's cache on disk.
  const response = await fetch(path, {
    headers,
    signal: signal ?? null,
    cache: 'no-store',
  }).catch((error) => {
    throw signal?.aborted ? error : unreachable();
  });
  if (response.ok) return response;
  const problem = await problemIn(response);
  if (problem.status === 401 || problem.status === 403) reportRefusedKey(problem.message);
  throw problem;
}

export type Snapshot<Body> = {
  readonly body: Body;
  /** The instant of the data, and their age when the response was sent. Null without the header. */
  readonly asOf: { readonly instant: Date; readonly ageMs: number } | null;
  /** Of the next page; null if there is none. */
  readonly cursor: string | null;
};

export async function get<Body>(path: string, signal?: AbortSignal): Promise<Snapshot<Body>> {
  const response = await send(path, signal);
  const text = await response.text().catch((error) => {
    throw signal?.aborted ? error : unreachable();
  });
  const body = parseExactly(text) as Body;
  const cursor = response.headers.get('X-Next-Cursor');
  const asOf = response.headers.get('X-Data-As-Of');
  if (asOf === null) return { body, asOf: null, cursor };
  const instant = new Date(asOf);
  // The server's clock: that of the browser may differ.
  const sentAt = new Date(response.headers.get('Date') ?? asOf);
  const ageMs = Math.max(0, sentAt.getTime() - instant.getTime());
  return { body, asOf: { instant, ageMs }, cursor };
}

export const unreachable = (): ApiProblem => new ApiProblem(texts.problems.unreachable, 0);

/** The problem of a failed request. Throws any other error. */
export function problemOf(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error;
  throw error;
}

/** A problem in the reader's language: the messages of the API are English. */
async function problemIn(response: Response): Promise<ApiProblem> {
  const { status, headers } = response;
  const { problems } = texts;
  const body = (await response.json().catch(() => null)) as {
    readonly error?: { readonly param?: string };
  } | null;
  const { param } = body?.error ?? {};
  const seconds = headers.get('Retry-After');
  const id = headers.get('Request-Id') ?? '';
  const byStatus: Readonly<Record<number, string>> = {
    401: problems.key,
    403: problems.scope,
    404: problems.noRecord,
    429: problems.tooMany,
  };
  const reason = byStatus[status] ?? (status < 500 ? refusal(param) : problems.unavailable(id));
  return new ApiProblem(reason, status, param, seconds === null ? null : Number(seconds));
}

function refusal(param = ''): string {
  if (param === 'interval') return texts.problems.interval;
  if (param === 'customer_id') return texts.problems.customer;
  return texts.problems.refused(param === exclusion ? '' : (filterNamed(param)?.label ?? param));
}
