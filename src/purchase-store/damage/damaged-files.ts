import type { Current } from '../format/current.ts';
import { DamagedLogError } from '../format/log.ts';
import { sendDamageReport } from './damage-reports.ts';

const reportIntervalMs = 60_000;

/** The damaged files of an organization, which queries do not read until the worker has replaced them. */
export class DamagedFiles {
  readonly #dataDirectory: string;
  readonly #organizationId: bigint;
  readonly #onError: (organizationId: bigint, error: unknown) => void;
  /** By name, when the worker received a report (monotonic). */
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

  /** Adds the file that an error of these files is about. */
  add({ base, log }: Current, error: unknown): void {
    this.#onError(this.#organizationId, error);
    const isOfLog = error instanceof DamagedLogError || base === null;
    this.report(isOfLog ? log : base);
  }

  /** Whether one of the files is damaged. The worker receives another report if it has not replaced it. */
  includes({ base, log }: Current): boolean {
    const name = [base, log].find((each) => each !== null && this.#reportedAt.has(each));
    if (name == null) return false;
    this.report(name);
    return true;
  }

  /** Makes the worker build the files again. `error` is passed on as often as the worker receives a report. */
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
