import type { Snapshot } from '../api/api.ts';
import { byId } from '../display/elements.ts';
import { formatTime, language } from '../display/format.ts';

const relative = new Intl.RelativeTimeFormat(language, { style: 'short', numeric: 'auto' });
const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

let timer: ReturnType<typeof setInterval> | undefined;

/** Shows the instant of the data, and how long ago it was. */
export function showFreshness(asOf: Snapshot<unknown>['asOf'], timeZone: string): void {
  clearInterval(timer);
  const container = byId('freshness');
  container.textContent = '';
  container.classList.remove('failed');
  if (asOf === null) return;
  const receivedAt = performance.now();
  const show = () => {
    if (!container.isConnected) clearInterval(timer);
    const age = asOf.ageMs + performance.now() - receivedAt;
    container.textContent = `Data as of ${formatTime(asOf.instant, timeZone)} (${formatAge(age)})`;
    container.classList.toggle('old', age > 300_000);
  };
  show();
  timer = setInterval(show, 5_000);
}

function formatAge(ageMs: number): string {
  const [unit, length] = units.find(([, length]) => ageMs >= length) ?? ['second', 1_000];
  return relative.format(-Math.floor(ageMs / length), unit);
}
