import type { Campaign } from './campaigns.ts';
import { createWeightedPicker, type RandomSource } from './random-source.ts';
import { slugOf } from './shop.ts';

/** Weight, source, medium and campaign. */
const sources: readonly (readonly [number, string | null, string | null, string | null])[] = [
  [230, 'google', 'cpc', 'pesquisa-marca'],
  [150, 'facebook', 'paid', 'remarketing-carrinho'],
  [115, 'crm', 'email', 'carrinho-abandonado'],
  [90, 'instagram', 'paid', 'prospecção-lookalike'],
  [80, null, null, null],
  [50, 'crm', 'whatsapp', 'boas-vindas'],
  [40, 'google', 'organic', null],
  [28, 'crm', 'email', 'aniversario'],
  [25, 'instagram', 'social', null],
  [22, 'influencer', 'parceria', 'julia-conceição'],
  [20, 'crm', 'sms', 'recompra-60-dias'],
  [10, 'instagram', null, null],
];
const pickSource = createWeightedPicker(sources.map(([weight]) => weight));
const mailingProbability = 0.1;
const contents = ['banner-topo', 'botao-final', 'video-15s', 'stories', null, null] as const;
const terms = ['presente dia das mães', 'frete grátis', 'loja oficial', null, null] as const;

/** Picks the utm columns of purchases at ascending instants. */
export function createUtmPicker(campaigns: readonly Campaign[], random: RandomSource) {
  const mailings = campaigns
    .filter(({ sent_at }) => sent_at !== null)
    .sort((left, right) => Number(left.sent_at) - Number(right.sent_at))
    .map(({ name, sent_at, channel = 'email' }) => ({
      sentAt: Number(sent_at),
      origin: ['crm', channel as string, slugOf(name as string)] as const,
    }));
  let sent = 0;

  return (at: number) => {
    while ((mailings[sent]?.sentAt ?? Number.POSITIVE_INFINITY) <= at) sent++;
    let [, source, medium, campaign] = sources[pickSource(random)] as (typeof sources)[number];
    const mailing = random.chance(mailingProbability) ? mailings[sent - 1] : undefined;
    if (mailing !== undefined) [source, medium, campaign] = mailing.origin;
    return {
      utm_source: source,
      utm_medium: medium,
      utm_campaign: campaign,
      utm_content: campaign && random.pick(contents),
      utm_term: medium === 'cpc' ? random.pick(terms) : null,
    };
  };
}
