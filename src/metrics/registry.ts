import { setTimeout as sleep } from 'node:timers/promises';
import { type Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/** A registry with the metrics of the Node process. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

/** Seconds, from a cached response to an export. */
export const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60,
];

export type Readings = readonly (readonly [labels: Record<string, string>, value: number])[];

/** Adds a gauge whose values are read at each scrape, so that the measured code does nothing. It has no value without readings. */
export function addGauge(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
  read: () => Readings | Promise<Readings | null>,
): void {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    async collect() {
      const readings = (await read()) ?? [];
      this.reset();
      // A gauge without labels is 0 after a reset.
      if (readings.length === 0 && labelNames.length === 0) this.remove();
      for (const [labels, value] of readings) this.set(labels, value);
    },
  });
}

/** A scrape does not wait longer for a query. */
const maxWaitMs = 1_000;

/**
 * Reads what takes a query, one query at a time, also for several metrics; null after a failure. A scrape
 * that the query takes too long for has the result of the scrape before if `keepsLast`, and null otherwise.
 */
export function queried<Result>(
  query: () => Promise<Result | null>,
  { keepsLast }: { readonly keepsLast: boolean },
): () => Promise<Result | null> {
  let querying: Promise<Result | null> | null = null;
  let last: Result | null = null;
  return async () => {
    querying ??= query()
      .catch(() => null)
      .finally(() => {
        querying = null;
      });
    const late = keepsLast ? last : null;
    last = await Promise.race([querying, sleep(maxWaitMs, late, { ref: false })]);
    return last;
  };
}

/** Makes all label values visible before their first event, so that a rate sees the first one. */
export function addZeros<Label extends string>(
  counter: Counter<Label>,
  label: Label,
  values: readonly string[],
): void {
  for (const value of values) counter.inc({ [label]: value } as Record<Label, string>, 0);
}
