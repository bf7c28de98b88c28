import { useEffect, useMemo, useState } from 'preact/hooks';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import { formatTime } from '../display/format.ts';
import { locale } from '../language/language.ts';

const relative = new Intl.RelativeTimeFormat(locale, { style: 'short', numeric: 'auto' });
const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;
const oldMs = 300_000;

/** The instant of the data, and how long ago it was. */
export function Freshness() {
  const { shown, isStale } = useDashboard();
  const asOf = shown?.data.ranking?.asOf ?? null;
  const receivedAt = useMemo(() => performance.now(), [asOf]);
  const [now, setNow] = useState(receivedAt);
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 5_000);
    return () => clearInterval(timer);
  }, []);
  if (shown === null || asOf === null) return <p class="freshness" id="freshness" />;
  const ageMs = asOf.ageMs + Math.max(0, now - receivedAt);
  const classes = ['freshness', ageMs > oldMs && 'old', isStale && 'failed'];
  return (
    <p class={classes.filter(Boolean).join(' ')} id="freshness">
      {`Data as of ${formatTime(asOf.instant, shown.view.state.timezone)} (${formatAge(ageMs)})`}
    </p>
  );
}

function formatAge(ageMs: number): string {
  const [unit, length] = units.find(([, length]) => ageMs >= length) ?? ['second', 1_000];
  return relative.format(-Math.floor(ageMs / length), unit);
}
