import { type Platform, platforms } from '../domain/purchase.ts';
import type { DemandCalendar } from './demand-calendar.ts';
import { createDemandCalendar } from './demand-calendar.ts';
import { MICROS_PER_DAY } from './instants.ts';
import { createRandomSource, type RandomSource } from './random-source.ts';

/** What makes one shop differ from the next. */
export type OrganizationProfile = {
  name: string;
  calendar: DemandCalendar;
  /** Half of its products cost less. */
  medianPriceInCents: number;
  freeShippingFromInCents: number;
  /** Whether it also sells in dollars. */
  hasDollars: boolean;
  /** Most used first. */
  platforms: readonly Platform[];
  /** A stream of its own for each purpose. */
  random(purpose: string): RandomSource;
};

const SHOP_NAMES = [
  'Ateliê Conceição',
  'Empório São João',
  'Casa do Café Mantiqueira',
  'Moda Praia Ipanema',
  'Livraria Ipê Amarelo',
  'Cosméticos Açaí',
  'Sapataria Três Corações',
  'Pet Shop Bicho Bão',
  'Joias Esperança',
  'Vinícola Serra Gaúcha',
  'Bebê & Mamãe',
  'Esportes Maracanã',
  'Cerâmica Olaria',
  'Chás da Vovó Inês',
  'Surf Floripa',
  'Decoração Búzios',
] as const;

export function createOrganizationProfile(
  seed: number,
  index: number,
  until: number,
): OrganizationProfile {
  const random = (purpose: string) => createRandomSource(seed, index, purpose);
  const source = random('profile');
  const historyDays = 1100 + source.integer(730);
  const start =
    Math.floor((until - historyDays * MICROS_PER_DAY) / MICROS_PER_DAY) * MICROS_PER_DAY;
  return {
    name: shopName(seed, index),
    calendar: createDemandCalendar(start, until, source.between(1.2, 1.7)),
    medianPriceInCents: Math.round(4900 * 4 ** source.fraction()),
    freeShippingFromInCents: source.pick([14_900, 19_900, 24_900, 29_900]),
    hasDollars: index % 2 === 1,
    platforms: rankPlatforms(source),
    random,
  };
}

/** Consecutive organizations of one run never share a name. */
function shopName(seed: number, index: number): string {
  const place = createRandomSource(seed, 'names').integer(SHOP_NAMES.length) + index;
  const round = Math.floor(index / SHOP_NAMES.length);
  const name = SHOP_NAMES[place % SHOP_NAMES.length] as string;
  return round === 0 ? name : `${name} ${round + 1}`;
}

/** A real store builder comes first; the rest are side channels. */
function rankPlatforms(random: RandomSource): Platform[] {
  const main = random.pick(platforms.slice(0, 3));
  const rest = platforms.filter((platform) => platform !== main);
  const shift = random.integer(rest.length);
  return [main, ...rest.slice(shift), ...rest.slice(0, shift)];
}
