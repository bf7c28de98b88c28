import type { Times } from '../measure/rounds.ts';
import { median, pairedRatios, type Summary, summarize } from '../measure/statistics.ts';
import type { Plot } from '../report/plots.ts';
import { decimal, type FigureTable, spread } from '../report/tables.ts';
import type { ReportText } from '../runner/suite.ts';
import { type PeerQuestion, type QuestionKind, targets } from './queries.ts';

const contenders = ['http', 'engine', 'statements', 'clickhouse', 'postgres'] as const;
type Contender = (typeof contenders)[number];

/** What one question took; all ratios are paired by round. */
export type Figure = {
  readonly question: string;
  readonly kind: QuestionKind;
  /** NaN where a contender was not asked. */
  readonly milliseconds: Readonly<Record<Contender, Summary>>;
  /** ClickHouse within the process / the service's whole HTTP answer. */
  readonly ratio: Summary;
  readonly target: number;
  readonly isMet: boolean;
  /** ClickHouse / the service's engine, both within the process. */
  readonly engineRatio: Summary;
  /** The same of their CPU time, which others at work on the machine disturb less. */
  readonly engineCpuRatio: number;
};

export function figureOf(
  { name, kind }: PeerQuestion,
  times: Readonly<Record<Contender, Times>>,
): Figure {
  const { http, engine, clickhouse } = times;
  const ratio = summarize(pairedRatios(clickhouse.wall, http.wall));
  return {
    question: name,
    kind,
    milliseconds: Object.fromEntries(
      contenders.map((contender) => [contender, summarize(times[contender].wall)]),
    ) as Record<Contender, Summary>,
    ratio,
    target: targets[kind],
    isMet: ratio.median >= targets[kind],
    engineRatio: summarize(pairedRatios(clickhouse.wall, engine.wall)),
    engineCpuRatio: median(pairedRatios(clickhouse.cpu, engine.cpu)),
  };
}

const headings: Readonly<Record<Contender, string>> = {
  http: 'HTTP ms',
  engine: 'engine ms',
  statements: 'DuckDB ms',
  clickhouse: 'ClickHouse ms',
  postgres: 'Postgres ms',
};

/** Of these two the quartiles are shown as well. */
const isCompared = (contender: Contender) => contender === 'http' || contender === 'clickhouse';

export function describeFigures(figures: readonly Figure[]): ReportText {
  const shown = contenders.filter((contender) =>
    figures.some(({ milliseconds }) => !Number.isNaN(milliseconds[contender].median)),
  );
  const table: FigureTable = {
    head: [
      'question',
      ...shown.map((contender) => headings[contender]),
      ...['ratio', 'target', '', 'engines', 'CPU'],
    ],
    rows: figures.map((figure) => [
      figure.question,
      ...shown.map((contender) => {
        const measured = figure.milliseconds[contender];
        return isCompared(contender) ? spread(measured) : decimal(measured.median);
      }),
      spread(figure.ratio, 2),
      `≥ ${decimal(figure.target)}`,
      figure.isMet ? 'met' : 'missed',
      decimal(figure.engineRatio.median, 2),
      decimal(figure.engineCpuRatio, 2),
    ]),
  };
  return [table, ...kindsOf(figures), legend];
}

/** A picture of each kind of questions. */
export function plotFigures(figures: readonly Figure[]): Plot[] {
  return Object.entries(targets).map(([kind, target]) => ({
    kind: 'bars',
    title: `How many times faster than ClickHouse: ${kind}`,
    note: 'ClickHouse within the measuring process over the whole HTTP answer of the service, round by round. To the left of 1 ClickHouse is faster.',
    unit: '×',
    scale: 'log',
    baseline: 1,
    target: { label: `aim: ${decimal(target)} or more`, value: target },
    bars: figures
      .filter((figure) => figure.kind === kind)
      .map(({ question, ratio }) => ({ label: question, value: ratio })),
  }));
}

function kindsOf(figures: readonly Figure[]): string[] {
  return Object.entries(targets).map(([kind, target]) => {
    const ofKind = figures.filter((figure) => figure.kind === kind);
    const met = ofKind.filter(({ isMet }) => isMet).length;
    const least = ofKind.reduce((a, b) => (a.ratio.median <= b.ratio.median ? a : b));
    const which = `${decimal(least.ratio.median, 2)} (${least.question})`;
    return `${kind}: ${met} of ${ofKind.length} meet ${decimal(target)}; the least is ${which}`;
  });
}

const legend =
  "HTTP: the API in a process of its own, over a socket, with the key's check in Postgres and " +
  'the answer as JSON; no answer is remembered, but what a file shows in all (its totals, its only ' +
  'currency) is, and each purchase has its quarter of an hour stored. Engine: its engine within the measuring process. ' +
  "DuckDB: the engine's statements, without the engine. ClickHouse: within the measuring process, " +
  'without HTTP, key or JSON of the API. Ratio: ClickHouse / HTTP; engines, CPU: ClickHouse / engine.';
