import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get } from '../api/api.ts';
import { pathOf } from '../api/path.ts';
import { announce } from '../components/announce.ts';
import { useDashboard } from '../dashboard/dashboard-state.ts';
import type { Totals } from '../dashboard/load.ts';
import type { Parts } from '../dashboard/parts.ts';
import { formatTime } from '../display/format.ts';
import { locale, texts } from '../language/language.ts';
import { measureNames } from '../view/view-state.ts';

const relative = new Intl.RelativeTimeFormat(locale, { style: 'short', numeric: 'auto' });
const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;
const oldMs = 300_000;

const checkMs = 60_000;

/** The instant of the data, how long ago it was, and a button that requests newer ones. */
export function Freshness() {
  const { parts, refresh, isAutomatic } = useDashboard();
  const totals = parts.totals?.value;
  const asOf = totals?.asOf ?? null;
  const shown = useAge(asOf);
  const { newest, isFailed } = useNewest(asOf, isAutomatic ? refresh : null);
  const service = useAge(newest);
  const isNewer = asOf !== null && (isNewerThan(newest, asOf) || hasOtherTotals(parts));
  useEffect(() => {
    if (isNewer) announce(texts.freshness.newer);
  }, [isNewer, asOf]);
  if (totals == null || asOf === null) return <p class="freshness" id="freshness" />;
  const isOld = parts.totals?.problem != null || isFailed;
  const classes = ['freshness', service > oldMs && 'old', isOld && 'failed'];
  return (
    <div class="inline">
      <p
        class={classes.filter(Boolean).join(' ')}
        id="freshness"
        data-failed={texts.freshness.failed}
      >
        {texts.freshness.asOf(formatTime(asOf.instant, totals.report.timezone), formatAge(shown))}
      </p>
      <button type="button" class="quiet" id="refresh" onClick={refresh}>
        {isNewer ? texts.freshness.newer : texts.freshness.refresh}
      </button>
    </div>
  );
}

type AsOf = Totals['asOf'];

const isNewerThan = (newest: AsOf, { instant }: NonNullable<AsOf>): boolean =>
  newest !== null && newest.instant > instant;

/**
 * Whether the totals after all parts are others than those of the cards: purchases have changed meanwhile, so parts
 * may differ. Instants do not tell, because they also move without changes.
 */
function hasOtherTotals({ totals, check }: Parts): boolean {
  if (check?.view !== totals?.view || !check?.value) return false;
  const later = check.value.totals;
  return measureNames.some((name) => later[name] !== totals?.value?.report.totals[name]);
}

/** The age of data at present, in milliseconds. */
function useAge(asOf: AsOf): number {
  const receivedAt = useMemo(() => performance.now(), [asOf]);
  const [now, setNow] = useState(receivedAt);
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 5_000);
    return () => clearInterval(timer);
  }, []);
  return (asOf?.ageMs ?? 0) + Math.max(0, now - receivedAt);
}

/**
 * The newest instant that the service has. A visible page asks each minute for this alone, and refreshes by itself
 * only if its user wants that.
 */
function useNewest(
  asOf: AsOf,
  refresh: (() => void) | null,
): { readonly newest: AsOf; readonly isFailed: boolean } {
  // Keeps the state of its last rendering, such as the number of rows.
  const refreshing = useRef(refresh);
  refreshing.current = refresh;
  const [checked, setChecked] = useState<{ readonly newest: AsOf; readonly isFailed: boolean }>();
  useEffect(() => {
    setChecked({ newest: asOf, isFailed: false });
    const check = async () => {
      if (document.visibilityState !== 'visible') return;
      const path = pathOf('/purchases', { limit: '1' });
      const newest = await get(path).then(
        ({ asOf }) => asOf,
        () => null,
      );
      if (asOf !== null && isNewerThan(newest, asOf)) refreshing.current?.();
      setChecked((before) => ({
        newest: newest ?? before?.newest ?? null,
        isFailed: newest === null,
      }));
    };
    const timer = setInterval(check, checkMs);
    return () => clearInterval(timer);
  }, [asOf]);
  return checked ?? { newest: asOf, isFailed: false };
}

function formatAge(ageMs: number): string {
  const [unit, length] = units.find(([, length]) => ageMs >= length) ?? ['second', 1_000];
  return relative.format(-Math.floor(ageMs / length), unit);
}
