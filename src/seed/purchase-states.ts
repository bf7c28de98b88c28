import type { PaymentStatus } from '../domain/purchase.ts';
import { MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE } from './instants.ts';
import type { PurchasePlan } from './purchase-plan.ts';
import type { RandomSource } from './random-source.ts';

export type PurchaseState = {
  status: 'open' | 'closed' | 'cancelled' | null;
  payment: PaymentStatus | null;
  /** Null: nothing to ship, as with gift cards. */
  shipping: 'unpacked' | 'unshipped' | 'shipped' | null;
};

/** The only combinations there are. */
const STATES = {
  pending: { status: 'open', payment: 'pending', shipping: 'unpacked' },
  authorized: { status: 'open', payment: 'authorized', shipping: 'unpacked' },
  paid: { status: 'open', payment: 'paid', shipping: 'unpacked' },
  packed: { status: 'open', payment: 'paid', shipping: 'unshipped' },
  shipped: { status: 'open', payment: 'paid', shipping: 'shipped' },
  delivered: { status: 'closed', payment: 'paid', shipping: 'shipped' },
  digital: { status: 'closed', payment: 'paid', shipping: null },
  abandoned: { status: 'open', payment: 'abandoned', shipping: 'unpacked' },
  expired: { status: 'cancelled', payment: 'abandoned', shipping: 'unpacked' },
  voided: { status: 'cancelled', payment: 'voided', shipping: 'unpacked' },
  refunded: { status: 'cancelled', payment: 'refunded', shipping: 'unpacked' },
  returned: { status: 'closed', payment: 'refunded', shipping: 'shipped' },
  /** Imported with nothing but its customer, value and time: each optional field is null. */
  bare: { status: null, payment: null, shipping: null },
} as const satisfies Record<string, PurchaseState>;

type StateName = keyof typeof STATES;
const STATE_NAMES = Object.keys(STATES) as StateName[];
const CODES = Object.fromEntries(STATE_NAMES.map((name, code) => [name, code])) as Record<
  StateName,
  number
>;

export const PURCHASE_STATES: readonly PurchaseState[] = Object.values(STATES);

export function isPaid(stateCode: number): boolean {
  return PURCHASE_STATES[stateCode]?.payment === 'paid';
}

export function isBare(stateCode: number): boolean {
  return stateCode === CODES.bare;
}

const BARE_EVERY = 500;

/**
 * Fills in how far the purchase has come by `until`, and when it last changed.
 * A purchase walks through its states until the next step would be in the
 * future; that is why only recent ones are pending or under way.
 */
export function drawPurchaseState(
  plan: PurchasePlan,
  index: number,
  until: number,
  random: RandomSource,
): void {
  plan.updatedAt[index] = plan.createdAt[index] as number;
  plan.state[index] = CODES.pending;
  if (index % BARE_EVERY === BARE_EVERY - 1) {
    plan.state[index] = CODES.bare;
    return;
  }
  const advance = (after: number, code: number): boolean => {
    const at = (plan.updatedAt[index] as number) + Math.floor(after);
    if (at > until) return false;
    plan.updatedAt[index] = at;
    plan.state[index] = code;
    return true;
  };
  const outcome = random.fraction();
  if (outcome < 0.1) {
    const left = advance(random.between(2, 48) * MICROS_PER_HOUR, CODES.abandoned);
    if (left && outcome < 0.07) advance(random.between(5, 10) * MICROS_PER_DAY, CODES.expired);
  } else if (outcome < 0.14) {
    advance(random.between(1, 72) * MICROS_PER_HOUR, CODES.voided);
  } else {
    followPaidPurchase(advance, outcome, random);
  }
}

function followPaidPurchase(
  advance: (after: number, code: number) => boolean,
  outcome: number,
  random: RandomSource,
): void {
  if (!awaitPayment(advance, random)) return;
  if (outcome < 0.165) {
    advance(random.between(0.2, 3) * MICROS_PER_DAY, CODES.refunded);
    return;
  }
  if (outcome < 0.19) {
    advance(MICROS_PER_MINUTE, CODES.digital);
    return;
  }
  const isDelivered =
    advance(random.between(0.1, 2) * MICROS_PER_DAY, CODES.packed) &&
    advance(random.between(0.2, 3) * MICROS_PER_DAY, CODES.shipped) &&
    advance(random.between(2, 14) * MICROS_PER_DAY, CODES.delivered);
  if (isDelivered && outcome < 0.215) {
    advance(random.between(1, 25) * MICROS_PER_DAY, CODES.returned);
  }
}

/** Pix in minutes, cards authorized first, boletos after days. */
function awaitPayment(
  advance: (after: number, code: number) => boolean,
  random: RandomSource,
): boolean {
  const method = random.fraction();
  if (method < 0.45) return advance(random.between(0.3, 25) * MICROS_PER_MINUTE, CODES.paid);
  if (method < 0.85) {
    return (
      advance(random.between(0.05, 3) * MICROS_PER_MINUTE, CODES.authorized) &&
      advance(random.between(0.1, 36) * MICROS_PER_HOUR, CODES.paid)
    );
  }
  return advance(random.between(8, 80) * MICROS_PER_HOUR, CODES.paid);
}
