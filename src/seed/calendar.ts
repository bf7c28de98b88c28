import { createWeightedPicker, type RandomSource } from './random-source.ts';

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** By hour in UTC: in São Paulo, three hours earlier, evenings are busy and nights quiet. */
const hourWeights = [
  7.4, 5.9, 3.4, 1.6, 0.9, 0.5, 0.3, 0.3, 0.4, 0.9, 1.8, 2.9, 4, 4.7, 5, 5.1, 4.9, 4.8, 4.8, 4.7,
  4.8, 5.3, 6.2, 7.2,
];
/** From Sunday. */
const weekdayWeights = [0.86, 1.16, 1.12, 1.06, 1.02, 0.96, 0.8];
/** From January. */
const monthWeights = [0.86, 0.84, 0.95, 0.94, 1.04, 1, 0.97, 1, 0.96, 1, 1.14, 1.16];
/** Month, first day, last day, weight, weekday. The first that applies counts. */
const seasons: readonly (readonly [number, number, number, number, number?])[] = [
  [3, 12, 15, 1.5], // Consumer's Day
  [5, 1, 13, 1.9], // Mother's Day
  [6, 5, 12, 1.5], // Dia dos Namorados
  [11, 23, 29, 7.5, 5], // Black Friday
  [11, 20, 30, 2],
  [12, 3, 20, 1.7], // Christmas
  [12, 26, 31, 0.7],
];

type Calendar = ReturnType<typeof createCalendar>;

/** When people buy, from a midnight in UTC on. Instants are milliseconds. */
export function createCalendar(start: number, until: number, yearlyGrowth: number) {
  const weights: number[] = [];
  for (let day = start; day < until; day += dayMs) {
    const weight = dayWeight(new Date(day)) * yearlyGrowth ** ((day - start) / (365 * dayMs));
    for (const [hour, hourWeight] of hourWeights.entries()) {
      const elapsed = Math.max(0, Math.min(1, (until - day) / hourMs - hour));
      weights.push(weight * hourWeight * elapsed);
    }
  }
  return { start, until, pickHour: createWeightedPicker(weights) };
}

/** `count` ascending instants. */
export function drawInstants(calendar: Calendar, count: number, random: RandomSource) {
  const { start, until, pickHour } = calendar;
  const instants = new Float64Array(count);
  for (let index = 0; index < count; index++) {
    const hour = start + pickHour(random) * hourMs;
    instants[index] = hour + Math.floor(random.fraction() * Math.min(hourMs, until - hour));
  }
  return instants.sort();
}

function dayWeight(date: Date): number {
  const [month, day, weekday] = [date.getUTCMonth(), date.getUTCDate(), date.getUTCDay()];
  const season = seasons.find(
    ([ofMonth, first, last, , onWeekday = weekday]) =>
      ofMonth === month + 1 && first <= day && day <= last && onWeekday === weekday,
  );
  return (weekdayWeights[weekday] as number) * (monthWeights[month] as number) * (season?.[3] ?? 1);
}
