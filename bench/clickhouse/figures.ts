import { type Time, wall } from '../measure/rounds.ts';
import { ratioOf, type Summary, summaryOf } from '../measure/statistics.ts';
import { decimal, spread, tableOf } from '../report/tables.ts';
import type { ReportText } from '../runner/suite.ts';
import { type ComparedQuery, type QueryKind, targets } from './queries.ts';

/** The headings of what is measured. */
const headings = {
  http: 'HTTP ms',
  engine: 'engine ms',
  statements: 'DuckDB ms',
  clickhouse: 'ClickHouse ms',
  postgres: 'Postgres ms',
} as const;
type Measured = keyof typeof headings;

/** The times of one query. All ratios are of the same round. */
export type Figure = {
  readonly query: string;
  readonly kind: QueryKind;
  readonly milliseconds: Readonly<Partial<Record<Measured, Summary>>>;
  /** ClickHouse in the process / the service's whole HTTP response. */
  readonly ratio: Summary;
  readonly target: number;
  readonly isMet: boolean;
  /** ClickHouse / the service's engine, both in the process. */
  readonly engineRatio: Summary;
  /** The same ratio of processor time, which other programs change less. */
  readonly engineCpuRatio: number;
};

export function figureOf(
  { name, kind }: ComparedQuery,
  times: Readonly<Record<Exclude<Measured, 'postgres'>, Time[]>>,
): Figure {
  const { http, engine, clickhouse } = times;
  const ratio = ratioOf(clickhouse, http, wall);
  const summaries = Object.entries(times).map(([of, each]) => [of, summaryOf(each, wall)]);
  return {
    query: name,
    kind,
    milliseconds: Object.fromEntries(summaries),
    ratio,
    target: targets[kind],
    isMet: ratio.median >= targets[kind],
    engineRatio: ratioOf(clickhouse, engine, wall),
    engineCpuRatio: ratioOf(clickhouse, engine, ({ cpu }) => cpu).median,
  };
}

export function describeFigures(figures: readonly Figure[]): ReportText {
  const times = Object.entries(headings)
    .filter(([name]) => figures[0]?.milliseconds[name as Measured] !== undefined)
    .map(([name, heading]) => [
      heading,
      ({ milliseconds }: Figure) => {
        const summary = milliseconds[name as Measured] as Summary;
        const isCompared = name === 'http' || name === 'clickhouse';
        return isCompared ? spread(summary) : decimal(summary.median);
      },
    ]);
  const table = tableOf(figures, {
    query: ({ query }) => query,
    ...Object.fromEntries(times),
    ratio: ({ ratio }) => spread(ratio, 2),
    target: ({ target }) => `≥ ${decimal(target)}`,
    '': ({ isMet }) => (isMet ? 'met' : 'missed'),
    engines: ({ engineRatio }) => decimal(engineRatio.median, 2),
    CPU: ({ engineCpuRatio }) => decimal(engineCpuRatio, 2),
  });
  const byKind = Object.entries(targets).map(([kind, target]) => {
    const ofKind = figures.filter((figure) => figure.kind === kind);
    const met = ofKind.filter(({ isMet }) => isMet).length;
    const min = ofKind.reduce((a, b) => (a.ratio.median <= b.ratio.median ? a : b));
    const which = `${decimal(min.ratio.median, 2)} (${min.query})`;
    return `${kind}: ${met} of ${ofKind.length} meet ${decimal(target)}; the minimum is ${which}`;
  });
  return [table, ...byKind, legend];
}

const legend =
  "HTTP: the API in its own process, over a socket, with the key's check in Postgres and the " +
  'response as JSON, without a response cache. A file has stored totals, its only currency, and ' +
  "each purchase's quarter of an hour. Engine: the API's engine in the measuring process. " +
  "DuckDB: the engine's statements, without the engine. ClickHouse: in the measuring process, " +
  'without HTTP, key check and JSON. Postgres: plain SQL with covering indexes, which suit the queries of the ' +
  'suite `engines`. Ratio: ClickHouse / HTTP; engines, CPU: ClickHouse / engine.';
