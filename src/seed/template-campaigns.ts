import { slugOf } from './brazilian-names.ts';
import { type ScheduledCampaign, scheduleCampaigns } from './campaign-schedule.ts';
import { copyLine } from './copy-text.ts';
import { CONTACT, type CustomerPlan, countContacts } from './customer-plan.ts';
import { instantText, optionalInstantText } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import type { RandomSource } from './random-source.ts';

export type TemplateCampaign = ScheduledCampaign & { channel: 'whatsapp' | 'sms' };

export const COPY_TEMPLATE_CAMPAIGNS =
  'copy template_campaigns (id, organization_id, created_at, updated_at, status, channel, is_official, scheduling_type, recipient_type, name, scheduled_for, sent_at, templates, metrics) from stdin';

const EVERY_DAYS = 19;

export function planTemplateCampaigns(profile: OrganizationProfile): TemplateCampaign[] {
  const random = profile.random('template campaigns');
  return scheduleCampaigns(profile, EVERY_DAYS, random).map((campaign) => ({
    ...campaign,
    channel: random.chance(0.82) ? 'whatsapp' : 'sms',
  }));
}

export function* templateCampaignLines(
  profile: OrganizationProfile,
  campaigns: readonly TemplateCampaign[],
  customers: CustomerPlan,
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('template campaign rows');
  for (const [index, campaign] of campaigns.entries()) {
    const reachable = countContacts(customers, CONTACT.hasPhone, campaign.sentAt);
    const metrics = drawMetrics(reachable, campaign.channel, random);
    const required = [
      firstId + index,
      organizationId,
      instantText(campaign.createdAt),
      instantText(campaign.updatedAt),
    ];
    // The newest one, which lies ahead, has nothing but these.
    if (index === campaigns.length - 1) {
      yield copyLine([...required, ...Array(10).fill(null)]);
      continue;
    }
    yield copyLine([
      ...required,
      campaign.status,
      campaign.channel,
      campaign.channel === 'whatsapp' && random.chance(0.85),
      campaign.schedulingType,
      random.pick(['segment', 'segment', 'tag', 'all']),
      campaign.name,
      optionalInstantText(campaign.scheduledFor),
      optionalInstantText(campaign.sentAt),
      JSON.stringify(drawTemplates(campaign, random)),
      campaign.status === 'sent' ? JSON.stringify(metrics) : null,
    ]);
  }
}

function drawMetrics(
  reachable: number,
  channel: TemplateCampaign['channel'],
  random: RandomSource,
) {
  const recipients = Math.floor(reachable * random.between(0.05, 0.5));
  const failed = Math.floor(recipients * random.between(0, 0.06));
  const sent = recipients - failed;
  const delivered = Math.floor(sent * random.between(0.9, 0.99));
  // Nobody learns whether a text message was read.
  const read = channel === 'sms' ? 0 : Math.floor(delivered * random.between(0.5, 0.85));
  return { recipients, sent, delivered, read, failed };
}

/** Several templates share the recipients by weight; the weights add up to 100. */
function drawTemplates(campaign: TemplateCampaign, random: RandomSource) {
  const count = random.pick([1, 1, 1, 2, 2, 3]);
  const base = slugOf(campaign.name).replaceAll('-', '_');
  const weight = Math.floor(100 / count);
  return Array.from({ length: count }, (_, order) => ({
    id: String(100_000_000 + random.integer(900_000_000)),
    order,
    weight: order === 0 ? 100 - weight * (count - 1) : weight,
    name: `${base}_v${order + 1}`,
    category: random.pick(['MARKETING', 'MARKETING', 'MARKETING', 'UTILITY']),
    language: 'pt_BR',
  }));
}
