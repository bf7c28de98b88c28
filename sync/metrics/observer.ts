import type { DuckDBInstance } from '@duckdb/node-api';
import type { MappingFailures } from '../status/mapping-failures.ts';
import type { OrganizationState } from '../status/worker-state.ts';
import type { StoredSize } from '../tick/store.ts';
import type { Repair } from '../verification/repair.ts';
import type { Verification } from '../verification/verify.ts';

/** The state of a worker at one moment. */
export type ObservedWorker = {
  /** The last poll of the change log: when it began by Postgres's clock, and its end (monotonic). */
  readonly lastPoll: { readonly asOf: bigint; readonly at: number } | null;
  readonly organizations: readonly {
    readonly state: OrganizationState;
    /** Whether ticks do not include it. */
    readonly isPending: boolean;
    /** What is published shows all changes up to this instant; null if nothing is. */
    readonly asOf: bigint | null;
    readonly size: StoredSize | null;
  }[];
};

/** `poll`: polling and publishing a tick. `changes`: reading and writing those of one organization. */
export const stages = ['poll', 'pruning', 'changes', 'load', 'compact', 'verification'] as const;
export type Stage = (typeof stages)[number];

/** Receives the events of a worker, for metrics. */
export type WorkerObserver = {
  /** This process has the lock and follows changes; null: no longer. */
  followed(
    worker: {
      state(): ObservedWorker;
      readonly instance: DuckDBInstance | null;
      readMappingFailures(): Promise<MappingFailures | null>;
    } | null,
  ): void;
  polled(milliseconds: number): void;
  /** A tick with changes was published. */
  published(changes: number, bytes: number, milliseconds: number): void;
  /** `reason` is one of a few sentences, without values. */
  built(kind: 'load' | 'catch up' | 'compact', reason: string, milliseconds: number): void;
  failed(stage: Stage): void;
  verified(found: Verification, repair: Repair | null): void;
};

export const noObserver: WorkerObserver = {
  followed() {},
  polled() {},
  published() {},
  built() {},
  failed() {},
  verified() {},
};
