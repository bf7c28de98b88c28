import { slugOf } from './brazilian-names.ts';
import type { ScheduledCampaign } from './campaign-schedule.ts';
import { COPY_NULL, copyText } from './copy-text.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { createWeightedPicker, type RandomSource, zipfWeights } from './random-source.ts';
import type { TemplateCampaign } from './template-campaigns.ts';

/**
 * Where the buyer came from, as the five utm columns of a COPY line. Instants
 * passed to it must ascend.
 */
export type TrafficSource = (at: number) => string;

/** Content and term in some of the variants; the first is the bare campaign. */
type Origin = readonly string[];
type SentCampaign = { sentAt: number; origin: Origin };

const NO_ORIGIN = utmColumns(null, null, null, null, null);
const UNTRACKED_PROBABILITY = 0.58;
const WITHOUT_CAMPAIGN_PROBABILITY = 0.12;
/** Of the purchases with a campaign: the rest belongs to a single recent mailing. */
const EVERGREEN_PROBABILITY = 0.68;
const NEXT_OLDER_PROBABILITY = 0.3;

const WITHOUT_CAMPAIGN = [
  utmColumns('google', 'organic', null, null, null),
  utmColumns('instagram', 'social', null, null, null),
  utmColumns('instagram', null, null, null, null),
  utmColumns('facebook', 'social', null, null, null),
  utmColumns('tiktok', 'social', null, null, null),
  utmColumns('linktree', 'referral', null, null, null),
] as const;

/** Always running: source, medium, campaign. */
const EVERGREEN_CAMPAIGNS = [
  ['google', 'cpc', 'marca'],
  ['facebook', 'paid', 'remarketing'],
  ['crm', 'email', 'carrinho-abandonado'],
  ['google', 'cpc', 'shopping_performance_max'],
  ['instagram', 'paid', 'prospecção-lookalike'],
  ['crm', 'whatsapp', 'boas-vindas'],
  ['tiktok', 'paid', 'criadores'],
  ['crm', 'email', 'aniversario'],
  ['google', 'display', 'remarketing-display'],
  ['influencer', 'parceria', 'julia-conceição'],
  ['pinterest', 'paid', 'catalogo'],
  ['crm', 'sms', 'recompra-60-dias'],
  ['cuponeria', 'afiliado', 'comparadores'],
  ['youtube', 'video', 'institucional'],
] as const;

const CONTENTS = ['banner-topo', 'botao-final', 'video-15s', 'carrossel', 'stories'] as const;
const TERMS = ['presente dia das mães', 'frete grátis', 'promoção', 'loja oficial'] as const;

export function createTrafficSource(
  profile: OrganizationProfile,
  emailCampaigns: readonly ScheduledCampaign[],
  templateCampaigns: readonly TemplateCampaign[],
): TrafficSource {
  const random = profile.random('traffic');
  const evergreen = EVERGREEN_CAMPAIGNS.map(([source, medium, campaign]) =>
    createOrigin(source, medium, campaign, random),
  );
  const pickEvergreen = createWeightedPicker(zipfWeights(evergreen.length, 1.3));
  const pickUntagged = createWeightedPicker(zipfWeights(WITHOUT_CAMPAIGN.length, 1));
  const sent = listSent(emailCampaigns, templateCampaigns, random);
  let sentByNow = 0;

  return (at) => {
    while (sentByNow < sent.length && (sent[sentByNow] as SentCampaign).sentAt <= at) sentByNow++;
    const kind = random.fraction();
    if (kind < UNTRACKED_PROBABILITY) return NO_ORIGIN;
    if (kind < UNTRACKED_PROBABILITY + WITHOUT_CAMPAIGN_PROBABILITY) {
      return WITHOUT_CAMPAIGN[pickUntagged(random)] as string;
    }
    let origin = evergreen[pickEvergreen(random)] as Origin;
    if (sentByNow > 0 && !random.chance(EVERGREEN_PROBABILITY)) {
      let recent = sentByNow - 1;
      while (recent > 0 && random.chance(NEXT_OLDER_PROBABILITY)) recent--;
      origin = (sent[recent] as SentCampaign).origin;
    }
    return random.chance(0.45) ? (origin[0] as string) : random.pick(origin);
  };
}

function listSent(
  emailCampaigns: readonly ScheduledCampaign[],
  templateCampaigns: readonly TemplateCampaign[],
  random: RandomSource,
): SentCampaign[] {
  const mailings = [
    ...emailCampaigns.map((campaign) => ({ campaign, medium: 'email' })),
    ...templateCampaigns.map((campaign) => ({ campaign, medium: campaign.channel })),
  ];
  return mailings
    .filter(({ campaign }) => campaign.status === 'sent')
    .map(({ campaign, medium }) => ({
      sentAt: campaign.sentAt,
      origin: createOrigin('crm', medium, slugOf(campaign.name), random),
    }))
    .sort((left, right) => left.sentAt - right.sentAt);
}

function createOrigin(
  source: string,
  medium: string,
  campaign: string,
  random: RandomSource,
): Origin {
  const term = medium === 'cpc' || random.chance(0.15) ? random.pick(TERMS) : null;
  return [
    utmColumns(source, medium, campaign, null, null),
    utmColumns(source, medium, campaign, random.pick(CONTENTS), null),
    utmColumns(source, medium, campaign, random.pick(CONTENTS), term),
  ];
}

/** Escaped once here instead of once per purchase. */
function utmColumns(...values: readonly (string | null)[]): string {
  return values.map((value) => (value === null ? COPY_NULL : copyText(value))).join('\t');
}
