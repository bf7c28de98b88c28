import type { DuckDBInstance } from '@duckdb/node-api';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { addDuckDBMemory } from '../../src/metrics/duckdb-memory.ts';
import { addGauge, addZeros, durationBuckets } from '../../src/metrics/registry.ts';
import type { MappingStatus } from '../../src/postgres/mapping/mapping-status.ts';
import { everyOrganization, type Shard } from '../../src/purchase-store/ticks/shard.ts';
import { type OrganizationState, organizationStates } from '../organization-report.ts';
import type { StoredSize } from '../tick/store.ts';
import { type Repair, type Verification, verificationStates } from '../verification/verify.ts';
import { addMappingMetrics } from './mapping-metrics.ts';

/** The state of a worker at one moment. */
export type ObservedWorker = {
  /** The last poll of the change log: when it began by Postgres's clock, and its end (monotonic). */
  readonly lastPoll: { readonly instant: bigint; readonly at: number } | null;
  readonly organizations: readonly {
    readonly state: OrganizationState;
    /** Whether ticks do not include it. */
    readonly isException: boolean;
    /** What is published shows all changes up to this instant; null if nothing is. */
    readonly asOf: bigint | null;
    readonly size: StoredSize | null;
  }[];
};

/** A worker that has the lock and follows changes. */
type Followed = {
  state(): ObservedWorker;
  readonly instance: DuckDBInstance | null;
  readMapping(): Promise<MappingStatus | null>;
};

/** `poll`: polling and publishing a tick. `changes`: reading and writing the changes of one organization. */
const stages = ['poll', 'pruning', 'changes', 'load', 'compact', 'verification'] as const;
export type Stage = (typeof stages)[number];

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

const reasons = { compact: 'the log is large', 'catch up': 'many changes at once' };

/** Loads take minutes. */
const buildBuckets = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600];

/** Adds the metrics of the worker. No label names an organization, because there may be thousands. */
export function createWorkerMetrics(registry: Registry, shard: Shard = everyOrganization) {
  const registers = [registry];
  let followed: Followed | null = null;
  addGauge(
    registry,
    'crm_sync_active',
    'Whether this process has the lock of its shard and follows changes; 0: a standby, or starting',
    ['shard'],
    () => [[{ shard: `${shard.number}/${shard.of}` }, followed === null ? 0 : 1]],
  );
  addGauge(
    registry,
    'crm_sync_shards',
    'Shards that need a worker, as this worker was started',
    [],
    () => [[{}, shard.of]],
  );
  addState(registry, () => followed?.state() ?? null);
  addDuckDBMemory(registry, () => followed?.instance ?? null);
  addMappingMetrics(registry, async () => followed?.readMapping() ?? null);
  const failures = new Counter({
    name: 'crm_sync_failures_total',
    help: 'Failed attempts, by stage. The worker retries all of them',
    labelNames: ['stage'],
    registers,
  });
  addZeros(failures, 'stage', stages);
  return {
    /** Null: this process no longer has the lock. */
    followed(worker: Followed | null): void {
      followed = worker;
    },
    failed: (stage: Stage): void => failures.inc({ stage }),
    ...createPollMetrics(registry),
    ...createPublicationMetrics(registry),
    ...createVerificationMetrics(registry),
  };
}

function addState(registry: Registry, read: () => ObservedWorker | null): void {
  addGauge(registry, 'crm_sync_organizations', 'Organizations by state', ['state'], () => {
    const organizations = read()?.organizations;
    if (organizations === undefined) return [];
    return organizationStates.map((state) => [
      { state },
      organizations.filter((organization) => organization.state === state).length,
    ]);
  });
  addGauge(
    registry,
    'crm_sync_pending_organizations',
    'Organizations that ticks do not include: they are loading, behind or failing',
    [],
    () => {
      const organizations = read()?.organizations;
      return organizations
        ? [[{}, organizations.filter(({ isException }) => isException).length]]
        : [];
    },
  );
  addGauge(
    registry,
    'crm_sync_lag_seconds',
    'Age, by the clock of Postgres, of the oldest instant that an organization shows',
    [],
    () => {
      const state = read();
      return state === null ? [] : lagOf(state).map((lag) => [{}, lag]);
    },
  );
  for (const [unit, help, field] of [
    ['changes', 'Changes of an organization since its last load or compaction', 'changes'],
    ['bytes', 'Bytes of these changes', 'changeBytes'],
  ] as const) {
    addGauge(registry, `crm_sync_uncompacted_${unit}`, `${help}: sum, and largest`, ['of'], () => {
      const sizes = (read()?.organizations ?? []).map(({ size }) => size?.[field] ?? 0);
      return [
        [{ of: 'all' }, sizes.reduce((sum, size) => sum + size, 0)],
        [{ of: 'largest' }, sizes.reduce((max, size) => Math.max(max, size), 0)],
      ];
    });
  }
}

/** Empty before the first poll, and if nothing is published. */
function lagOf({ lastPoll, organizations }: ObservedWorker): number[] {
  const instants = organizations.flatMap(({ asOf }) => asOf ?? []);
  if (lastPoll === null || instants.length === 0) return [];
  const oldest = instants.reduce((min, asOf) => (asOf < min ? asOf : min));
  const sincePoll = (performance.now() - lastPoll.at) / 1000;
  return [Math.max(0, Number(lastPoll.instant - oldest) / 1e6) + sincePoll];
}

function createPollMetrics(registry: Registry) {
  const registers = [registry];
  const durations = new Histogram({
    name: 'crm_sync_poll_duration_seconds',
    help: 'Duration of the polls of the change log whose tick was published',
    buckets: durationBuckets,
    registers,
  });
  const last = new Gauge({
    name: 'crm_sync_last_poll_timestamp_seconds',
    help: 'Time of the last poll of the change log whose tick was published; 0: none',
    registers,
  });
  return {
    polled(milliseconds: number): void {
      durations.observe(milliseconds / 1000);
      last.setToCurrentTime();
    },
  };
}

function createPublicationMetrics(registry: Registry) {
  const registers = [registry];
  const applied = new Counter({
    name: 'crm_sync_applied_rows_total',
    help: 'Changes of purchases that ticks have published',
    registers,
  });
  const durations = new Histogram({
    name: 'crm_sync_tick_duration_seconds',
    help: 'Duration of ticks: each reads and publishes the changes of all organizations',
    buckets: durationBuckets,
    registers,
  });
  const bytes = new Counter({
    name: 'crm_sync_published_bytes_total',
    help: 'Bytes of the changes that ticks have published',
    registers,
  });
  const builds = new Histogram({
    name: 'crm_sync_build_duration_seconds',
    help: 'Duration of loads and compactions that were published, by reason',
    labelNames: ['kind', 'reason'],
    buckets: buildBuckets,
    registers,
  });
  return {
    /** A tick with changes was published. */
    published(changes: number, appended: number, milliseconds: number): void {
      applied.inc(changes);
      bytes.inc(appended);
      durations.observe(milliseconds / 1000);
    },
    /** `reason` is one of a few sentences for a load. The other reasons have the number of changes. */
    built: (kind: 'load' | 'catch up' | 'compact', reason: string, milliseconds: number): void =>
      builds.observe(
        { kind, reason: kind === 'load' ? reason : reasons[kind] },
        milliseconds / 1000,
      ),
  };
}

function createVerificationMetrics(registry: Registry) {
  const registers = [registry];
  const verifications = new Counter({
    name: 'crm_sync_verifications_total',
    help: 'Verifications of an organization, by result before a repair',
    labelNames: ['result'],
    registers,
  });
  const differences = new Counter({
    name: 'crm_sync_verification_differences_total',
    help: 'Purchases that differed from Postgres',
    registers,
  });
  const repairs = new Counter({
    name: 'crm_sync_repairs_total',
    help: 'Repairs of differences: rebuild, or failed: the rebuild or the verification after it',
    labelNames: ['repair'],
    registers,
  });
  const last = new Gauge({
    name: 'crm_sync_last_verification_timestamp_seconds',
    help: 'Time of the last verification that compared an organization; 0: none',
    registers,
  });
  // An organization of which nothing is published is not verified.
  const results = verificationStates.filter((state) => state !== 'not published');
  addZeros(verifications, 'result', results);
  addZeros(repairs, 'repair', ['rebuild', 'failed']);
  return {
    verified(found: Verification, repair: Repair | null): void {
      verifications.inc({ result: found.state });
      differences.inc(found.differing);
      if (repair !== null) repairs.inc({ repair: repair.failure === null ? 'rebuild' : 'failed' });
      if (found.state !== 'not comparable') last.setToCurrentTime();
    },
  };
}
