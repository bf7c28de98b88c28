import { copyLine } from './copy-text.ts';
import { instantText } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { createWeightedPicker, zipfWeights } from './random-source.ts';

export const COPY_TAGS = 'copy tags (id, organization_id, name, color, created_at) from stdin';
export const COPY_CUSTOMER_TAGS =
  'copy customer_tags (organization_id, customer_id, tag_id) from stdin';

/** Most used first. */
const TAG_NAMES = [
  'recorrente',
  'instagram',
  'atacado',
  'troca pendente',
  'presente',
  'influenciadora',
  'reclamação resolvida',
  'loja física',
  'aniversário',
  'São Paulo capital',
  'feira',
  'não perturbe',
  'pós-venda',
  'pré-venda',
  'teste',
  // Without a name.
  null,
] as const;
const COLORS = ['#2F80ED', '#27AE60', '#EB5757', '#F2C94C', '#9B51E0', '#828282'] as const;

export const TAG_COUNT = TAG_NAMES.length;

const TAGGED_PROBABILITY = 0.24;
const FURTHER_TAG_PROBABILITY = 0.25;

export function* tagLines(
  profile: OrganizationProfile,
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('tags');
  const { start, until } = profile.calendar;
  for (const [index, name] of TAG_NAMES.entries()) {
    const createdAt = Math.floor(start + random.fraction() * (until - start));
    const color = name === null || random.chance(0.1) ? null : random.pick(COLORS);
    yield copyLine([firstId + index, organizationId, name, color, instantText(createdAt)]);
  }
}

export function* customerTagLines(
  profile: OrganizationProfile,
  customerCount: number,
  organizationId: string,
  firstTagId: number,
  firstCustomerId: number,
): Generator<string> {
  const random = profile.random('customer tags');
  const pickTag = createWeightedPicker(zipfWeights(TAG_COUNT, 1));
  const tags = new Set<number>();
  for (let customer = 0; customer < customerCount; customer++) {
    tags.clear();
    // However few customers there are, the first one is tagged.
    if (customer === 0 || random.chance(TAGGED_PROBABILITY)) {
      do tags.add(pickTag(random));
      while (random.chance(FURTHER_TAG_PROBABILITY));
    }
    for (const tag of tags) {
      yield `${organizationId}\t${firstCustomerId + customer}\t${firstTagId + tag}\n`;
    }
  }
}
