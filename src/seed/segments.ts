import { copyLine } from './copy-text.ts';
import { CONTACT, type CustomerPlan, hasContact, regionOf } from './customer-plan.ts';
import type { CustomerTotals } from './customer-totals.ts';
import { instantText, MICROS_PER_DAY, MICROS_PER_SECOND } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import type { RandomSource } from './random-source.ts';

/** A segment and the customers in it, by their index in the plan. */
export type SegmentPlan = { name: string | null; description: string | null; members: Int32Array };

export const COPY_SEGMENTS =
  'copy segments (id, organization_id, created_at, updated_at, name, description, customer_count) from stdin';
export const COPY_SEGMENT_CUSTOMERS =
  'copy segment_customers (organization_id, segment_id, customer_id) from stdin';

type Candidate = {
  index: number;
  plan: CustomerPlan;
  orders: number;
  spentInCents: number;
  /** Infinite without a purchase. */
  daysSincePurchase: number;
  daysSinceJoining: number;
  meanOrders: number;
  meanOrderInCents: number;
  random: RandomSource;
};

type SegmentRule = {
  name: string | null;
  description: string | null;
  includes(candidate: Candidate): boolean;
};

const RULES: readonly SegmentRule[] = [
  {
    name: 'Clientes VIP',
    description: 'Compram três vezes mais que a média',
    includes: ({ orders, meanOrders }) => orders >= 2 && orders >= 3 * meanOrders,
  },
  {
    name: 'Ticket alto',
    description: 'Ticket médio acima do dobro da loja',
    includes: ({ orders, spentInCents, meanOrderInCents }) =>
      orders > 0 && spentInCents / orders >= 2 * meanOrderInCents,
  },
  {
    name: 'Compraram uma vez e não voltaram',
    description: 'Uma única compra\nhá mais de 180 dias',
    includes: ({ orders, daysSincePurchase }) => orders === 1 && daysSincePurchase > 180,
  },
  {
    name: 'Inativos há um ano',
    description: null,
    includes: ({ orders, daysSincePurchase }) => orders > 1 && daysSincePurchase > 365,
  },
  {
    name: 'Compraram nos últimos 7 dias',
    description: 'Excluir das campanhas de desconto',
    includes: ({ daysSincePurchase }) => daysSincePurchase <= 7,
  },
  {
    name: 'Novos clientes',
    description: 'Cadastrados nos últimos 30 dias',
    includes: ({ daysSinceJoining }) => daysSinceJoining <= 30,
  },
  {
    name: 'Inscritos que nunca compraram',
    description: 'Recebem e-mail, mas ainda não compraram',
    includes: ({ orders, plan, index }) =>
      orders === 0 && hasContact(plan, index, CONTACT.isSubscribedToEmail),
  },
  {
    name: 'Região Sul',
    description: null,
    includes: ({ plan, index }) => regionOf(plan, index) === 'Sul',
  },
  {
    name: 'Nordeste com WhatsApp',
    description: 'Inscritos com telefone na região Nordeste',
    includes: ({ plan, index }) =>
      regionOf(plan, index) === 'Nordeste' &&
      hasContact(plan, index, CONTACT.hasPhone) &&
      hasContact(plan, index, CONTACT.isSubscribed),
  },
  {
    name: 'Sorteio no Instagram',
    description: 'Lista importada de uma planilha',
    includes: ({ random }) => random.chance(0.02),
  },
  { name: 'Rascunho: coleção de verão', description: null, includes: () => false },
  // Not named yet.
  { name: null, description: null, includes: () => false },
];

export function planSegments(
  profile: OrganizationProfile,
  customers: CustomerPlan,
  totals: CustomerTotals,
): SegmentPlan[] {
  const random = profile.random('segment members');
  const { until } = profile.calendar;
  const orders = totals.orders.reduce((sum, count) => sum + count, 0);
  const spent = totals.spentInCents.reduce((sum, cents) => sum + cents, 0);
  const members = RULES.map((): number[] => []);
  for (let index = 0; index < customers.count; index++) {
    const lastPurchaseAt = totals.lastPurchaseAt[index] as number;
    const candidate: Candidate = {
      index,
      plan: customers,
      orders: totals.orders[index] as number,
      spentInCents: totals.spentInCents[index] as number,
      daysSincePurchase: Number.isNaN(lastPurchaseAt)
        ? Number.POSITIVE_INFINITY
        : (until - lastPurchaseAt) / MICROS_PER_DAY,
      daysSinceJoining: (until - (customers.createdAt[index] as number)) / MICROS_PER_DAY,
      meanOrders: orders / customers.count,
      meanOrderInCents: spent / Math.max(1, orders),
      random,
    };
    for (const [rule, { includes }] of RULES.entries()) {
      if (includes(candidate)) members[rule]?.push(index);
    }
  }
  return RULES.map(({ name, description }, rule) => ({
    name,
    description,
    members: Int32Array.from(members[rule] ?? []),
  }));
}

export function* segmentLines(
  profile: OrganizationProfile,
  segments: readonly SegmentPlan[],
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('segment rows');
  const { start, until } = profile.calendar;
  for (const [index, { name, description, members }] of segments.entries()) {
    const createdAt = Math.floor(start + random.fraction() * 0.7 * (until - start));
    // Their members are counted anew every day.
    const updatedAt = Math.max(createdAt, until - random.integer(24 * 3600) * MICROS_PER_SECOND);
    yield copyLine([
      firstId + index,
      organizationId,
      instantText(createdAt),
      instantText(updatedAt),
      name,
      description,
      members.length,
    ]);
  }
}

export function* segmentCustomerLines(
  segments: readonly SegmentPlan[],
  organizationId: string,
  firstSegmentId: number,
  firstCustomerId: number,
): Generator<string> {
  for (const [segment, { members }] of segments.entries()) {
    for (const member of members) {
      yield `${organizationId}\t${firstSegmentId + segment}\t${firstCustomerId + member}\n`;
    }
  }
}
