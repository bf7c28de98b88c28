import { dayMs } from './calendar.ts';
import type { Row } from './copy-rows.ts';
import type { Customers, CustomerTotals } from './customers.ts';
import { drawPeriod, type Shop } from './shop.ts';

/** A tag or a segment, and the indexes of its customers. */
export type Group = { readonly row: Row; readonly members: readonly number[] };

type Candidate = { orders: number; cents: number; idleDays: number; ageDays: number };
type Segment = readonly [string | null, string | null, (customer: Candidate) => boolean];

/** Name, description and rule. */
const segments: readonly Segment[] = [
  ['Clientes VIP', 'Vinte compras ou mais', ({ orders }) => orders >= 20],
  ['Ticket alto', 'Média acima de R$ 500', ({ orders, cents }) => cents / orders > 50_000],
  ['Uma compra', 'Há mais\nde 180 dias', (c) => c.orders === 1 && c.idleDays > 180],
  ['Inativos há um ano', null, ({ orders, idleDays }) => orders > 0 && idleDays > 365],
  ['Compraram nos últimos 7 dias', null, ({ idleDays }) => idleDays <= 7],
  ['Novos clientes', 'Últimos 30 dias', ({ ageDays }) => ageDays <= 30],
  ['Nunca compraram', 'Cadastrados sem compra', ({ orders }) => orders === 0],
  ['Rascunho: coleção de verão', null, () => false],
  [null, null, () => false],
];

/** Name, and share of the customers. */
const tags: readonly (readonly [string | null, number])[] = [
  ['recorrente', 0.1],
  ['instagram', 0.05],
  ['atacado', 0.03],
  ['presente', 0.02],
  ['loja física', 0.01],
  ['feira', 0.001],
  [null, 0],
];
const colors = ['#2F80ED', '#27AE60', '#EB5757', '#F2C94C'] as const;

export function drawTags(shop: Shop, { createdAt }: Customers): Group[] {
  const random = shop.random('tags');
  const indexes = [...createdAt.keys()];
  return tags.map(([name, share]) => {
    const { created_at } = drawPeriod(shop, random);
    const members = indexes.filter(() => random.chance(share));
    return { row: { name, color: name && random.pick(colors), created_at }, members };
  });
}

export function drawSegments(shop: Shop, customers: CustomerTotals): Group[] {
  const random = shop.random('segments');
  const daysSince = (at: number) => (shop.calendar.until - at) / dayMs;
  const indexes = [...customers.createdAt.keys()];
  const candidateAt = (index: number): Candidate => ({
    orders: customers.orders[index] as number,
    cents: customers.spentInCents[index] as number,
    // NaN without an order: no rule accepts it.
    idleDays: daysSince(customers.lastAt[index] as number),
    ageDays: daysSince(customers.createdAt[index] as number),
  });
  return segments.map(([name, description, includes]) => {
    const members = indexes.filter((index) => includes(candidateAt(index)));
    const row = { name, description, customer_count: members.length, ...drawPeriod(shop, random) };
    return { row, members };
  });
}
