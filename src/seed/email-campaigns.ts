import { type ScheduledCampaign, scheduleCampaigns } from './campaign-schedule.ts';
import { copyLine } from './copy-text.ts';
import { CONTACT, type CustomerPlan, countContacts } from './customer-plan.ts';
import { instantText, optionalInstantText } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';

export const COPY_EMAIL_CAMPAIGNS =
  'copy email_campaigns (id, organization_id, created_at, updated_at, status, scheduling_type, name, scheduled_for, sent_at, metrics) from stdin';

const EVERY_DAYS = 11;

export function planEmailCampaigns(profile: OrganizationProfile): ScheduledCampaign[] {
  return scheduleCampaigns(profile, EVERY_DAYS, profile.random('email campaigns'));
}

export function* emailCampaignLines(
  profile: OrganizationProfile,
  campaigns: readonly ScheduledCampaign[],
  customers: CustomerPlan,
  organizationId: string,
  firstId: number,
): Generator<string> {
  const random = profile.random('email campaign metrics');
  for (const [index, campaign] of campaigns.entries()) {
    const audience = countContacts(customers, CONTACT.isSubscribedToEmail, campaign.sentAt);
    const sent = Math.floor(audience * random.between(0.3, 1));
    const delivered = Math.floor(sent * random.between(0.95, 0.998));
    const opened = Math.floor(delivered * random.between(0.12, 0.42));
    const clicked = Math.floor(opened * random.between(0.03, 0.2));
    const required = [
      firstId + index,
      organizationId,
      instantText(campaign.createdAt),
      instantText(campaign.updatedAt),
    ];
    // The newest one, which lies ahead, has nothing but these.
    if (index === campaigns.length - 1) {
      yield copyLine([...required, null, null, null, null, null, null]);
      continue;
    }
    yield copyLine([
      ...required,
      campaign.status,
      campaign.schedulingType,
      campaign.name,
      optionalInstantText(campaign.scheduledFor),
      optionalInstantText(campaign.sentAt),
      campaign.status === 'sent' ? JSON.stringify({ sent, delivered, opened, clicked }) : null,
    ]);
  }
}
