import { MICROS_PER_DAY, MICROS_PER_HOUR, NO_INSTANT } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import type { RandomSource } from './random-source.ts';

/** What email and template campaigns have in common. */
export type ScheduledCampaign = {
  name: string;
  status: 'draft' | 'scheduled' | 'sent' | 'cancelled';
  schedulingType: 'immediate' | 'scheduled';
  createdAt: number;
  updatedAt: number;
  scheduledFor: number;
  sentAt: number;
};

/** From January. */
const MONTHLY_THEMES = [
  ['Liquida Verão', 'Volta às Aulas'],
  ['Carnaval', 'Volta às Aulas'],
  ['Dia da Mulher', 'Semana do Consumidor'],
  ['Páscoa', 'Outono'],
  ['Dia das Mães', 'Frete Grátis'],
  ['Dia dos Namorados', 'São João'],
  ['Liquida Inverno', 'Férias'],
  ['Dia dos Pais', 'Aniversário da Loja'],
  ['Primavera', 'Dia do Cliente'],
  ['Dia das Crianças', 'Lançamento'],
  ['Esquenta Black Friday', 'Black Friday'],
  ['Natal', 'Última Chance de Natal'],
] as const;
const MONTH_NAMES = [
  'jan',
  'fev',
  'mar',
  'abr',
  'mai',
  'jun',
  'jul',
  'ago',
  'set',
  'out',
  'nov',
  'dez',
] as const;

/** One about every `everyDays` days of the shop's history, and two planned ahead; oldest first. */
export function scheduleCampaigns(
  profile: OrganizationProfile,
  everyDays: number,
  random: RandomSource,
): ScheduledCampaign[] {
  const { start, until } = profile.calendar;
  const campaigns: ScheduledCampaign[] = [];
  let day = Math.floor(start / MICROS_PER_DAY) + 5;
  const lastDay = Math.floor(until / MICROS_PER_DAY) + 2 * everyDays;
  while (day < lastDay) {
    campaigns.push(drawCampaign(day, start, until, random));
    day += Math.max(2, Math.round(everyDays * random.between(0.5, 1.5)));
  }
  return campaigns;
}

function drawCampaign(
  day: number,
  start: number,
  until: number,
  random: RandomSource,
): ScheduledCampaign {
  // Sent between nine in the morning and eight in the evening, local time.
  const dueAt = day * MICROS_PER_DAY + (12 + random.integer(12)) * MICROS_PER_HOUR;
  const preparedAt = dueAt - Math.floor(random.between(0.1, 9) * MICROS_PER_DAY);
  const latestCreation = until - Math.floor(random.between(1, 72) * MICROS_PER_HOUR);
  const createdAt = Math.max(start, Math.min(preparedAt, latestCreation));
  const isImmediate = random.chance(0.3);
  const fate = random.fraction();
  const campaign = {
    name: campaignName(day, random),
    schedulingType: isImmediate ? 'immediate' : 'scheduled',
    createdAt,
    scheduledFor: isImmediate ? NO_INSTANT : dueAt,
    sentAt: NO_INSTANT,
  } as const;
  const editedAt = Math.min(until, createdAt + random.integer(40) * MICROS_PER_HOUR);
  if (fate < 0.06) {
    return { ...campaign, status: 'draft', scheduledFor: NO_INSTANT, updatedAt: editedAt };
  }
  if (fate < 0.09) return { ...campaign, status: 'cancelled', updatedAt: editedAt };
  const sentAt = dueAt + random.integer(90_000_000);
  if (sentAt > until) {
    return { ...campaign, status: isImmediate ? 'draft' : 'scheduled', updatedAt: editedAt };
  }
  const countedAt = sentAt + Math.floor(random.between(1, 6) * MICROS_PER_DAY);
  return { ...campaign, status: 'sent', sentAt, updatedAt: Math.min(until, countedAt) };
}

function campaignName(day: number, random: RandomSource): string {
  const date = new Date((day * MICROS_PER_DAY) / 1000);
  const month = date.getUTCMonth();
  const theme = random.pick(MONTHLY_THEMES[month] as readonly string[]);
  return `${theme} ${date.getUTCDate()} ${MONTH_NAMES[month]} ${date.getUTCFullYear()}`;
}
