import type { Current } from '../format/current.ts';
import { DamagedLogError } from '../format/log.ts';
import { sendDamageReport } from './damage-reports.ts';

const reportIntervalMs = 60_000;

/** The damaged files of an organization, which queries do not read until the worker has replaced them. */
export class DamagedFiles {
  readonly #dataDirectory: string;
  readonly #organizationId: bigint;
  readonly #onError: (organizationId: bigint, error: unknown) => void;
  /** The time of the last report of each file, in monotonic milliseconds. */
  readonly #reportedAt = new Map<string, number>();

  constructor(
    dataDirectory: string,
    organizationId: bigint,
    onError: (organizationId: bigint, error: unknown) => void,
  ) {
    this.#dataDirectory = dataDirectory;
    this.#organizationId = organizationId;
    this.#onError = onError;
  }

  /** Adds the file that caused an error: the base or the log. */
  add({ base, log }: Current, error: unknown): void {
    this.#onError(this.#organizationId, error);
    const isOfLog = error instanceof DamagedLogError || base === null;
    this.report(isOfLog ? log : base);
  }

  /** Whether one of the files is damaged. Reports a damaged file again, once a minute. */
  includes({ base, log }: Current): boolean {
    const name = [base, log].find((each) => each !== null && this.#reportedAt.has(each));
    if (name == null) return false;
    this.report(name);
    return true;
  }

  /** Makes the worker rebuild the files. Calls `onError` once for each report, and not for each query. */
  report(name: string, error?: unknown): void {
    const now = performance.now();
    const reportedAt = this.#reportedAt.get(name);
    if (reportedAt !== undefined && now - reportedAt < reportIntervalMs) return;
    this.#reportedAt.set(name, now);
    if (error !== undefined) this.#onError(this.#organizationId, error);
    try {
      sendDamageReport(this.#dataDirectory, this.#organizationId, name);
    } catch (error) {
      this.#onError(this.#organizationId, error);
    }
  }
}
