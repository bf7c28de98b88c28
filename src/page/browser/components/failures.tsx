import type { ApiProblem } from '../api/api.ts';
import { texts } from '../language/language.ts';
import { filters } from '../view/filters.ts';

/** A request that failed, and how to repeat it alone. */
export type Failure = { readonly problem: ApiProblem; readonly retry?: (() => void) | undefined };

/** The controls that show their own problems, by parameter. */
const places: Readonly<Record<string, string>> = {
  created_since: 'period',
  created_until: 'period',
  timezone: 'filters',
  ...Object.fromEntries(filters.map(({ name }) => [name, 'filters'])),
  interval: 'series',
  group_by: 'ranking',
  group_limit: 'ranking',
};

const placeOf = ({ problem: { param = '' } }: Failure): string => places[param] ?? 'banner';

/** The problem of a control. Empty if it has none. */
export function problemAt(place: string, failures: readonly Failure[]): string {
  const failure = failures.findLast((one) => placeOf(one) === place);
  return failure?.problem.message ?? '';
}

type BannerProperties = { readonly failures: readonly Failure[]; onRetry(): void };

/** The last problem that belongs to no control. */
export function Banner({ failures, onRetry }: BannerProperties) {
  const failure = failures.findLast((one) => placeOf(one) === 'banner');
  if (failure === undefined) return null;
  return (
    <div class="banner" role="alert" data-focus-next="#main">
      <p>{failure.problem.message}</p>
      <button type="button" onClick={failure.retry ?? onRetry}>
        {texts.problems.retry}
      </button>
    </div>
  );
}
