import { type AttributeDefinition, drawAttributeValues } from './attributes.ts';
import { FIRST_NAMES, SURNAMES, slugOf } from './brazilian-names.ts';
import { NEIGHBORHOODS, PLACES, type Place, STREETS } from './brazilian-places.ts';
import { copyLine } from './copy-text.ts';
import { CONTACT, type CustomerPlan, hasContact } from './customer-plan.ts';
import type { CustomerTotals } from './customer-totals.ts';
import { instantText, MICROS_PER_DAY, optionalInstantText } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { createWeightedPicker, type RandomSource, zipfWeights } from './random-source.ts';

export const COPY_CUSTOMERS =
  'copy customers (id, organization_id, created_at, updated_at, name, email, phone, source, is_subscribed, is_subscribed_to_email, total_spent_in_cents, total_orders, first_purchase_date, last_purchase_date, identification, default_address, attributes) from stdin';

/** Reserved for examples: nobody can be written to by mistake. */
const EMAIL_DOMAINS = [
  'correio.example',
  'correio.example',
  'caixa.example',
  'carta.example',
  'empresa.example',
] as const;

const FIRST_NAME_SLUGS = FIRST_NAMES.map(slugOf);
const SURNAME_SLUGS = SURNAMES.map(slugOf);
const pickFirstName = createWeightedPicker(zipfWeights(FIRST_NAMES.length, 0.6));
const pickSurname = createWeightedPicker(zipfWeights(SURNAMES.length, 0.6));

export function* customerLines(
  profile: OrganizationProfile,
  plan: CustomerPlan,
  totals: CustomerTotals,
  definitions: readonly AttributeDefinition[],
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('customers');
  const sources = [
    ...profile.platforms.slice(0, 3),
    'popup',
    'importação',
    'cadastro manual',
    null,
  ];
  const pickSource = createWeightedPicker([50, 12, 6, 14, 6, 3, 9]);
  for (let index = 0; index < plan.count; index++) {
    const firstName = pickFirstName(random);
    const surname = pickSurname(random);
    const place = PLACES[plan.place[index] as number] as Place;
    yield copyLine([
      firstId + index,
      organizationId,
      instantText(plan.createdAt[index] as number),
      instantText(drawUpdate(plan, totals, index, profile.calendar.until, random)),
      random.chance(0.02) ? null : drawName(firstName, surname, random),
      drawEmail(hasContact(plan, index, CONTACT.hasEmail), firstName, surname, index, random),
      drawPhone(hasContact(plan, index, CONTACT.hasPhone), place, random),
      sources[pickSource(random)] ?? null,
      hasContact(plan, index, CONTACT.isSubscribed),
      hasContact(plan, index, CONTACT.isSubscribedToEmail),
      totals.spentInCents[index] as number,
      totals.orders[index] as number,
      optionalInstantText(totals.firstPurchaseAt[index] as number),
      optionalInstantText(totals.lastPurchaseAt[index] as number),
      random.chance(0.4) ? null : drawIdentification(random),
      jsonText(random.chance(0.18) ? null : drawAddress(place, index, random)),
      jsonText(drawAttributeValues(definitions, random)),
    ]);
  }
}

function jsonText(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

/** Soon after the last order, or with a later change of their details. */
function drawUpdate(
  plan: CustomerPlan,
  totals: CustomerTotals,
  index: number,
  until: number,
  random: RandomSource,
): number {
  const createdAt = plan.createdAt[index] as number;
  const lastPurchaseAt = totals.lastPurchaseAt[index] as number;
  const base = Number.isNaN(lastPurchaseAt) ? createdAt : lastPurchaseAt;
  const days = random.chance(0.25) ? random.between(1, 400) : random.fraction();
  const after = days * MICROS_PER_DAY;
  // Drawn anew instead of cut off: thousands of customers must not share `until`.
  return base + Math.floor(base + after < until ? after : random.fraction() * (until - base));
}

function drawName(firstName: number, surname: number, random: RandomSource): string {
  const middle = random.chance(0.3) ? `${SURNAMES[pickSurname(random)]} ` : '';
  return `${FIRST_NAMES[firstName]} ${middle}${SURNAMES[surname]}`;
}

/** Mostly unique; namesakes without a number share one, as families do. */
function drawEmail(
  hasEmail: boolean,
  firstName: number,
  surname: number,
  index: number,
  random: RandomSource,
): string | null {
  const separator = random.pick(['.', '_', '', '-']);
  const number = random.chance(0.04) ? '' : index;
  const domain = random.pick(EMAIL_DOMAINS);
  if (!hasEmail) return null;
  return `${FIRST_NAME_SLUGS[firstName]}${separator}${SURNAME_SLUGS[surname]}${number}@${domain}`;
}

/**
 * Mobile numbers that start with 90 are not handed out, so nobody can be called. Some were
 * typed in without the country code.
 */
function drawPhone(hasPhone: boolean, place: Place, random: RandomSource): string | null {
  const number = digits(random.integer(10_000_000), 7);
  const countryCode = random.chance(0.1) ? '' : '+55';
  return hasPhone ? `${countryCode}${place.areaCode}90${number}` : null;
}

/** Shaped like a CPF, but its first check digit is one too high: it belongs to nobody. */
function drawIdentification(random: RandomSource): string {
  const number = digits(random.integer(1_000_000_000), 9);
  let sum = 0;
  for (let place = 0; place < 9; place++) sum += Number(number[place]) * (10 - place);
  const check = (((sum * 10) % 11) % 10) + 1;
  return `${number.slice(0, 3)}.${number.slice(3, 6)}.${number.slice(6)}-${check % 10}${random.integer(10)}`;
}

function drawAddress(place: Place, index: number, random: RandomSource): Record<string, string> {
  const address: Record<string, string> = {
    id: String(700_000 + index),
    street: random.pick(STREETS),
    number: random.chance(0.03) ? 's/n' : String(1 + Math.floor(Math.exp(random.between(2, 8)))),
    city: place.city,
    state: place.state,
    country: 'BR',
  };
  if (random.chance(0.95)) {
    address.zip_code = `${place.postalPrefix}${digits(random.integer(100), 2)}-${digits(random.integer(1000), 3)}`;
  }
  if (random.chance(0.9)) address.neighborhood = random.pick(NEIGHBORHOODS);
  if (random.chance(0.3)) address.complement = drawComplement(random);
  return address;
}

/** Typed in by hand: quotes and backslashes occur. */
function drawComplement(random: RandomSource): string {
  const apartment = 1 + random.integer(180);
  if (random.chance(0.6)) return `Apto ${apartment}`;
  if (random.chance(0.5)) return `Bloco ${'ABCDE'[random.integer(5)]} \\ apto ${apartment}`;
  return random.pick(['Casa 2', 'Fundos', 'Portão "azul"', 'Próximo à padaria', 'Sobreloja']);
}

function digits(value: number, length: number): string {
  return String(value).padStart(length, '0');
}
