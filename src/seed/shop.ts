import { faker } from '@faker-js/faker/locale/pt_BR';
import { platforms } from '../domain/purchase.ts';
import { createCalendar, dayMs } from './calendar.ts';
import { createRandomSource, type RandomSource } from './random-source.ts';

const productCount = 240;
const neighborhoods = ['Centro', 'Boa Vista', 'Água Verde', 'Vila São José', "Pau d'Alho"] as const;

/** What makes one organization differ from the next. */
export type Shop = ReturnType<typeof createShop>;

export function createShop(seed: number, index: number, until: Date) {
  const random = createRandomSource(seed, index, 'shop');
  const historyMs = (1100 + random.integer(730)) * dayMs;
  const start = Math.floor((until.getTime() - historyMs) / dayMs) * dayMs;
  const medianPrice = 49 * 4 ** random.fraction();
  /** Log-normal. */
  const drawPrice = () => Math.floor(medianPrice * Math.exp(0.75 * random.normal())) * 100 + 90;
  const main = random.pick(platforms.slice(0, 3));
  return {
    ...drawNames(random),
    calendar: createCalendar(start, until.getTime(), random.between(1.2, 1.7)),
    /** The most popular product first. */
    pricesInCents: Array.from({ length: productCount }, drawPrice),
    freeShippingFromInCents: random.pick([14_900, 19_900, 24_900, 29_900]),
    hasDollars: index % 2 === 1,
    /** Most used first. */
    platforms: [main, ...platforms.filter((platform) => platform !== main)],
    /** A stream for each purpose. */
    random: (purpose: string) => createRandomSource(seed, index, purpose),
  };
}

/**
 * The names that rows are made of. faker has one generator for the whole process, so its seed
 * and its use stay in one synchronous function.
 */
function drawNames(random: RandomSource) {
  faker.seed(random.integer(2 ** 31));
  const list = <T>(length: number, draw: () => T) => Array.from({ length }, draw);
  return {
    name: faker.company.name(),
    firstNames: list(200, () => faker.person.firstName()),
    surnames: list(100, () => faker.person.lastName()),
    addresses: list(300, () => ({
      street: faker.location.street(),
      neighborhood: random.pick(neighborhoods),
      city: faker.location.city(),
      state: faker.location.state({ abbreviated: true }),
      country: 'BR',
      zip_code: faker.location.zipCode(),
    })),
  };
}

/** Lower-case ASCII: `João D'Ávila` becomes `joao-davila`. */
export const slugOf = (text: string): string => faker.helpers.slugify(text).toLowerCase();

/** When a row of the shop's set-up was created and last changed. */
export function drawPeriod({ calendar }: Shop, random: RandomSource) {
  const { start, until } = calendar;
  const createdAt = start + Math.floor(random.fraction() * (until - start));
  const updatedAt = createdAt + Math.floor(random.fraction() * (until - createdAt));
  return { created_at: new Date(createdAt), updated_at: new Date(updatedAt) };
}
