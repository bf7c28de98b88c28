import { useEffect, useRef, useState } from 'preact/hooks';
import { type ApiProblem, againIn } from '../api/problem.ts';
import { texts } from '../language/language.ts';
import { exclusion, filters } from '../view/filters.ts';

/** The parameters whose problems a control shows, by its place. */
const parameters: Readonly<Record<string, readonly string[]>> = {
  period: ['created_since', 'created_until', 'period', 'from', 'to', 'compare_to', 'measure'],
  filters: ['timezone', 'currencies', exclusion, ...filters.map(({ name }) => name)],
  series: ['interval', 'split'],
  ranking: ['group_by', 'drilled', 'then_by', 'group_limit'],
  cohorts: ['cohort_interval'],
};

const placeOf = ({ param = '' }: ApiProblem): string =>
  Object.keys(parameters).find((place) => parameters[place]?.includes(param)) ?? 'banner';

/** The problem of a control. Empty if it has none. */
export const problemAt = (place: string, problems: readonly ApiProblem[]): string =>
  problems.findLast((one) => placeOf(one) === place)?.message ?? '';

type BannerProperties = { readonly problems: readonly ApiProblem[]; onRetry(): void };

/** The last problem that belongs to no control. */
export function Banner({ problems, onRetry }: BannerProperties) {
  const problem = problems.findLast((one) => placeOf(one) === 'banner');
  if (problem === undefined) return null;
  return (
    <div class="banner" role="alert" data-focus-next="#main">
      {problem.waitSeconds === null ? (
        <p>{problem.message}</p>
      ) : (
        <Countdown problem={problem} seconds={problem.waitSeconds} onEnd={onRetry} />
      )}
      <button type="button" onClick={onRetry}>
        {texts.problems.retry}
      </button>
    </div>
  );
}

type CountdownProperties = {
  readonly problem: ApiProblem;
  readonly seconds: number;
  onEnd(): void;
};

/** Goes on by itself when the service accepts requests again. A screen reader says the time once. */
function Countdown({ problem, seconds, onEnd }: CountdownProperties) {
  const [left, setLeft] = useState(seconds);
  const end = useRef(onEnd);
  end.current = onEnd;
  useEffect(() => {
    let left = seconds;
    const count = () => {
      left -= 1;
      setLeft(Math.max(0, left));
      if (left > 0) return;
      clearInterval(timer);
      end.current();
    };
    setLeft(left);
    const timer = setInterval(count, 1_000);
    return () => clearInterval(timer);
  }, [problem]);
  return (
    <p>
      <span class="visually-hidden">{problem.message}</span>
      <span aria-hidden="true">
        {problem.reason} {againIn(left)}
      </span>
    </p>
  );
}
