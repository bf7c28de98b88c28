import { Counter, type Registry } from 'prom-client';
import { addGauge, queried } from '../../src/metrics/registry.ts';
import type { MappingStatus } from '../../src/postgres/mapping/mapping-status.ts';

const gauges: readonly (readonly [
  name: string,
  help: string,
  measure: (status: MappingStatus) => number | null,
])[] = [
  [
    'crm_sync_mapping_pending_changes',
    "Logged changes of a shop's tables that are not mapped, up to 10,000",
    ({ pendingChanges }) => pendingChanges,
  ],
  [
    'crm_sync_mapping_lag_seconds',
    "Age, by the clock of Postgres, of the instant up to which a shop's tables are mapped",
    ({ lagSeconds }) => lagSeconds,
  ],
  [
    'crm_sync_mapping_refused_rows',
    'Rows of the views that the service refuses, up to 10,000',
    ({ refusedRows }) => refusedRows,
  ],
  [
    'crm_sync_mapping_held_deletions',
    'Rows whose deletion waits for an operator',
    ({ heldDeletions }) => heldDeletions.reduce((sum, { rows }) => sum + rows, 0),
  ],
  [
    'crm_sync_mapping_problem',
    'Whether nothing is mapped, or only comparisons find changes',
    ({ problem }) => (problem === null ? 0 : 1),
  ],
  [
    'crm_sync_mapping_comparison_age_seconds',
    'Time since the last comparison of all rows with the views',
    ({ comparedAt }) =>
      comparedAt === null ? null : Math.max(0, (Date.now() - comparedAt.getTime()) / 1000),
  ],
  [
    'crm_sync_mapping_comparison_running_seconds',
    'Time since the begin of the comparison of all rows that runs; 0 if none does',
    ({ comparison }) =>
      comparison === null ? 0 : Math.max(0, (Date.now() - comparison.since.getTime()) / 1000),
  ],
  [
    'crm_sync_mapping_comparison_rows',
    'Rows that the running comparison has compared; 0 if none runs',
    ({ comparison }) => comparison?.rows ?? 0,
  ],
  [
    'crm_sync_mapping_comparison_expected_rows',
    'Rows that it will compare, by an estimate of Postgres',
    ({ comparison }) => comparison?.expectedRows ?? null,
  ],
];

/** Without values if there is no mapping, and for as long as Postgres does not respond. */
export function addMappingMetrics(
  registry: Registry,
  read: () => Promise<MappingStatus | null>,
): void {
  const readOnce = queried(read, { keepsLast: false });
  for (const [name, help, measure] of gauges) {
    addGauge(registry, name, help, [], async () => {
      const status = await readOnce();
      const value = status === null ? null : measure(status);
      return value === null ? [] : [[{}, value]];
    });
  }
  new Counter({
    name: 'crm_sync_mapping_repaired_rows_total',
    help: 'Rows that comparisons have corrected',
    registers: [registry],
    async collect() {
      const status = await readOnce();
      this.remove();
      if (status !== null) this.inc(status.repairedRows);
    },
  });
}
