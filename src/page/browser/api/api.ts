import { pluralOf, texts } from '../language/language.ts';
import { parseExactly } from './exact-json.ts';
import { readKey } from './key.ts';

let reportRefusedKey: (problem: string) => void = () => {};

/** Sets what happens if the service refuses the key. */
export function onKeyRefused(listener: (problem: string) => void): void {
  reportRefusedKey = listener;
}

/** A request that failed, with a sentence for the user. */
export class ApiProblem extends Error {
  /** 0 if the service did not respond. */
  readonly status: number;
  /** The parameter at fault. */
  readonly param: string | undefined;

  constructor(message: string, status: number, param?: string) {
    super(message);
    this.status = status;
    this.param = param;
  }
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

async function problemIn(response: Response): Promise<ApiProblem> {
  const { status } = response;
  const body = (await response.json().catch(() => null)) as {
    readonly error?: { readonly message?: string; readonly param?: string };
  } | null;
  const { message = `${status}`, param } = body?.error ?? {};
  return new ApiProblem(sentence(response, message, param), status, param);
}

/** The messages of the API are English. Those that a use of the page causes have their own texts. */
function sentence({ status, headers }: Response, message: string, param?: string): string {
  const { problems } = texts;
  const seconds = headers.get('Retry-After');
  const when =
    seconds === null ? problems.soon : pluralOf(problems.seconds, Number(seconds), seconds);
  if (status === 401) return problems.key;
  if (status === 403) return problems.scope;
  if (status === 404) return problems.noRecord;
  if (status === 429) return problems.tooMany(when);
  if (status >= 500) {
    const id = headers.get('Request-Id');
    return `${problems.unavailable(when)}${id === null ? '' : ` (${id})`}`;
  }
  if (param === 'interval') return problems.interval;
  if (param === 'customer_id') return problems.customer;
  return problems.refused(message);
}
