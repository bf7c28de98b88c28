import type { Platform } from '../domain/purchase.ts';
import { COPY_NULL } from './copy-text.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { createWeightedPicker, type RandomSource } from './random-source.ts';

/** The columns order_id_on_integration_platform, order_number and platform of a COPY line. */
export type OrderNumberSource = () => string;

/** By rank in the organization's platforms. */
const PLATFORM_WEIGHTS = [68, 14, 8, 5, 3, 2];

/** Every platform counts its orders in its own way: where it starts, how far apart they are. */
const ORDER_IDS: Record<Platform, { first: number; step: number }> = {
  shopify: { first: 4_500_000_000_000, step: 90_000 },
  nuvemshop: { first: 610_000_000, step: 900 },
  woocommerce: { first: 2_000, step: 3 },
  bling: { first: 16_000_000_000, step: 5_000 },
  facebook: { first: 778_000_000_000_000, step: 70_000 },
  popup: { first: 1, step: 1 },
};

const ORDER_NUMBER_START = 1001;

export function createOrderNumberSource(profile: OrganizationProfile): OrderNumberSource {
  const random = profile.random('order numbers');
  const pickPlatform = createWeightedPicker(PLATFORM_WEIGHTS);
  const counts = profile.platforms.map(() => 0);
  return () => {
    const rank = pickPlatform(random);
    const platform = profile.platforms[rank] as Platform;
    const count = counts[rank] as number;
    counts[rank] = count + 1;
    const { first, step } = ORDER_IDS[platform];
    const orderId = first + count * step + random.integer(step);
    return `${orderIdText(platform, orderId, random)}\t${orderNumber(platform, count, random)}\t${platform}`;
  };
}

function orderIdText(platform: Platform, orderId: number, random: RandomSource): string {
  if (platform === 'popup') return random.chance(0.5) ? COPY_NULL : `popup-${orderId}`;
  return String(orderId);
}

/** Pop-ups have no order numbers, and what comes in from Facebook often lost them. */
function orderNumber(platform: Platform, count: number, random: RandomSource): string {
  if (platform === 'popup') return COPY_NULL;
  if (platform === 'facebook' && random.chance(0.4)) return COPY_NULL;
  const number = ORDER_NUMBER_START + count;
  return platform === 'shopify' ? `#${number}` : String(number);
}
