import { pluralOf, texts } from '../language/language.ts';

/** A request that failed, with a sentence for the user. */
export class ApiProblem extends Error {
  /** 0 if the service did not respond. */
  readonly status: number;
  /** The parameter at fault. */
  readonly param: string | undefined;
  /** The message without the time to wait. */
  readonly reason: string;
  /** After how many seconds the service accepts a request. Null if it does not say so. */
  readonly waitSeconds: number | null;

  constructor(reason: string, status: number, param?: string, waitSeconds: number | null = null) {
    super(waitSeconds === null ? reason : `${reason} ${againIn(waitSeconds)}`);
    this.reason = reason;
    this.status = status;
    this.param = param;
    this.waitSeconds = waitSeconds;
  }
}

export const againIn = (seconds: number): string =>
  pluralOf(texts.problems.again, seconds, String(seconds));
