import type { Comparison } from '../measure/comparison.ts';
import type { ReportText } from '../runner/suite.ts';
import { spread, tableOf } from './tables.ts';

/** Tables of warm and of interleaved runs, with the names of the service and of the other one. */
export function describeComparisons(
  figures: readonly (Comparison & { readonly query: string })[],
  [service, other]: readonly [string, string],
): ReportText {
  const table = (kind: 'warm' | 'interleaved') =>
    tableOf(figures, {
      query: ({ query }) => query,
      [`${service} ms`]: (figure) => spread(figure[kind].service),
      [`${other} ms`]: (figure) => spread(figure[kind].other),
      [`${other} / ${service}`]: (figure) => spread(figure[kind].ratio, 2),
    });
  return [
    'Warm: the runs of a query follow each other.',
    table('warm'),
    'Interleaved: each run follows one of another.',
    table('interleaved'),
  ];
}
