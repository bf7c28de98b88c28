import type { DuckDBInstance } from '@duckdb/node-api';
import type { DeltaSize } from '../publish/publish.ts';
import type { Repair } from '../verification/repair.ts';
import type { Verification } from '../verification/verify.ts';

/** The state of an organization, as `status` shows it. `starting`: this worker has not run yet. */
export const observedStates = [
  'starting',
  'live',
  'waiting to load',
  'loading',
  'rebuilding',
  'compacting',
  'failed',
] as const;
export type ObservedState = (typeof observedStates)[number];

/** The state of a worker at one moment. */
export type WorkerState = {
  /** The last poll of the change log: when it began by Postgres's clock, and its end (monotonic). */
  readonly lastPoll: { readonly asOf: bigint; readonly at: number } | null;
  readonly organizations: readonly {
    readonly state: ObservedState;
    /** Whether a run may still have to publish changes. */
    readonly isPending: boolean;
    /** The published generation shows all changes up to this instant; null if there is none. */
    readonly asOf: bigint | null;
    readonly delta: DeltaSize | null;
  }[];
};

export const stages = [
  'poll',
  'pruning',
  'record',
  'run',
  'load',
  'compact',
  'verification',
] as const;
/** `record`: writing a file for `status` or the API. `run`: applying and publishing changes. */
export type Stage = (typeof stages)[number];

/** Receives the events of a worker, for metrics. */
export type WorkerObserver = {
  /** This process has the lock and follows changes; null: no longer. */
  followed(worker: { state(): WorkerState; readonly instance: DuckDBInstance | null } | null): void;
  polled(milliseconds: number): void;
  applied(changes: number): void;
  /** `bytes` of the delta, which is what a publication copies. */
  published(bytes: number, milliseconds: number): void;
  /** `reason` is one of a few sentences, without values. */
  built(kind: 'load' | 'compact', reason: string, milliseconds: number): void;
  failed(stage: Stage): void;
  verified(found: Verification, repair: Repair | null): void;
};

export const noObserver: WorkerObserver = {
  followed() {},
  polled() {},
  applied() {},
  published() {},
  built() {},
  failed() {},
  verified() {},
};
