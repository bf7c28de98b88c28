import { MICROS_PER_DAY, MICROS_PER_HOUR } from './instants.ts';
import type { RandomSource } from './random-source.ts';

/** When people shop: one weight per hour of a shop's history, summed up. */
export type DemandCalendar = { start: number; until: number; hourSums: Float64Array };

/** America/Sao_Paulo. Brazil ended daylight saving time in 2019. */
const LOCAL_OFFSET = -3 * MICROS_PER_HOUR;

/** By local hour: nights are quiet, lunch is a small peak, evenings are the large one. */
const HOUR_WEIGHTS = [
  1.6, 0.9, 0.5, 0.3, 0.3, 0.4, 0.9, 1.8, 2.9, 4, 4.7, 5, 5.1, 4.9, 4.8, 4.8, 4.7, 4.8, 5.3, 6.2,
  7.2, 7.4, 5.9, 3.4,
] as const;
/** From Sunday. */
const WEEKDAY_WEIGHTS = [0.86, 1.16, 1.12, 1.06, 1.02, 0.96, 0.8] as const;
/** From January. */
const MONTH_WEIGHTS = [0.86, 0.84, 0.95, 0.94, 1.04, 1, 0.97, 1, 0.96, 1, 1.14, 1.16] as const;

export function createDemandCalendar(
  start: number,
  until: number,
  yearlyGrowth: number,
): DemandCalendar {
  const hours = Math.max(1, Math.ceil((until - start) / MICROS_PER_HOUR));
  const hourSums = new Float64Array(hours);
  let total = 0;
  let day = Number.NaN;
  let weightOfDay = 0;
  for (let hour = 0; hour < hours; hour++) {
    const local = start + hour * MICROS_PER_HOUR + LOCAL_OFFSET;
    const localDay = Math.floor(local / MICROS_PER_DAY);
    if (localDay !== day) {
      day = localDay;
      const years = (hour * MICROS_PER_HOUR) / (365 * MICROS_PER_DAY);
      weightOfDay = dayWeight(day) * yearlyGrowth ** years;
    }
    const localHour = Math.floor((local - day * MICROS_PER_DAY) / MICROS_PER_HOUR);
    total += weightOfDay * (HOUR_WEIGHTS[localHour] as number);
    hourSums[hour] = total;
  }
  return { start, until, hourSums };
}

/**
 * `count` ascending instants that follow the calendar. Exponential gaps give
 * uniform values already in order, which spares sorting millions of them.
 */
export function drawInstants(
  calendar: DemandCalendar,
  count: number,
  random: RandomSource,
): Float64Array {
  const { start, until, hourSums } = calendar;
  const instants = new Float64Array(count);
  let position = 0;
  for (let index = 0; index < count; index++) {
    position -= Math.log(1 - random.fraction());
    instants[index] = position;
  }
  position -= Math.log(1 - random.fraction());
  const scale = (hourSums[hourSums.length - 1] as number) / position;
  let hour = 0;
  let before = 0;
  for (let index = 0; index < count; index++) {
    const demand = (instants[index] as number) * scale;
    while (hour < hourSums.length - 1 && (hourSums[hour] as number) <= demand) {
      before = hourSums[hour] as number;
      hour++;
    }
    const share = Math.min(1, (demand - before) / ((hourSums[hour] as number) - before));
    const hourStart = start + hour * MICROS_PER_HOUR;
    const hourEnd = Math.min(until, hourStart + MICROS_PER_HOUR);
    instants[index] = Math.floor(hourStart + share * (hourEnd - hourStart));
  }
  return instants;
}

function dayWeight(localDay: number): number {
  const date = new Date((localDay * MICROS_PER_DAY) / 1000);
  const weekday = WEEKDAY_WEIGHTS[date.getUTCDay()] as number;
  const month = MONTH_WEIGHTS[date.getUTCMonth()] as number;
  return weekday * month * occasionWeight(date);
}

function occasionWeight(date: Date): number {
  const dayOfMonth = date.getUTCDate();
  switch (date.getUTCMonth()) {
    case 2: // Consumer's Day
      return dayOfMonth >= 12 && dayOfMonth <= 15 ? 1.5 : 1;
    case 4: // Mother's Day, the second Sunday; parcels need some days
      return peakBefore(dayOfMonth - nthWeekday(date, 0, 2), 12, 1.9);
    case 5: // Dia dos Namorados
      return peakBefore(dayOfMonth - 12, 8, 1.5);
    case 10: // Black Friday, the day after the fourth Thursday
      return blackFridayWeight(dayOfMonth - nthWeekday(date, 4, 4) - 1);
    case 11: // Christmas
      return dayOfMonth > 25 ? 0.7 : peakBefore(dayOfMonth - 20, 18, 1.7);
    default:
      return 1;
  }
}

function blackFridayWeight(daysAfter: number): number {
  if (daysAfter === 0) return 7.5;
  if (daysAfter === -1) return 3.2;
  if (daysAfter >= 1 && daysAfter <= 3) return 2.6;
  return daysAfter < -1 && daysAfter >= -7 ? 1.6 : 1;
}

function peakBefore(daysAfter: number, days: number, weight: number): number {
  return daysAfter <= 0 && daysAfter > -days ? weight : 1;
}

/** Day of the month of the n-th such weekday of the date's month. */
function nthWeekday(date: Date, weekday: number, nth: number): number {
  const first = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)).getUTCDay();
  return 1 + ((weekday - first + 7) % 7) + (nth - 1) * 7;
}
