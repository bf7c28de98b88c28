import { dayMs, hourMs } from './calendar.ts';
import type { Row } from './copy-rows.ts';
import type { Customers } from './customers.ts';
import { firstAbove, type RandomSource } from './random-source.ts';
import { type Shop, slugOf } from './shop.ts';

/** A row of either kind of campaign. */
export type Campaign = Row & { readonly name: string | null; readonly sent_at: Date | null };

/** From January. */
const themes = [
  ...['Liquida Verão', 'Carnaval', 'Semana do Consumidor', 'Páscoa', 'Dia das Mães', 'São João'],
  ...['Férias', 'Dia dos Pais', 'Primavera', 'Dia das Crianças', 'Black Friday', 'Natal'],
] as const;
/** The weights of a campaign's templates. */
const templateWeights = [[100], [100], [50, 50], [60, 25, 15]] as const;

export function drawEmailCampaigns(shop: Shop, customers: Customers): Campaign[] {
  const random = shop.random('email campaigns');
  return drawCampaigns(shop, 11, random).map((campaign) => {
    const sent = Math.floor(audience(campaign, customers) * random.between(0.3, 1));
    const delivered = Math.floor(sent * random.between(0.95, 0.998));
    const opened = Math.floor(delivered * random.between(0.12, 0.42));
    const clicked = Math.floor(opened * random.between(0.03, 0.2));
    return { ...campaign, metrics: campaign.sent_at && { sent, delivered, opened, clicked } };
  });
}

export function drawTemplateCampaigns(shop: Shop, customers: Customers): Campaign[] {
  const random = shop.random('template campaigns');
  return drawCampaigns(shop, 19, random).map((campaign) => {
    const { name, sent_at } = campaign;
    const channel = random.pick(['whatsapp', 'whatsapp', 'whatsapp', 'sms']);
    const recipients = Math.floor(audience(campaign, customers) * random.between(0.05, 0.5));
    const failed = Math.floor(recipients * random.between(0, 0.06));
    const sent = recipients - failed;
    const delivered = Math.floor(sent * random.between(0.9, 0.99));
    // SMS has no read receipts.
    const read = channel === 'sms' ? 0 : Math.floor(delivered * random.between(0.5, 0.85));
    return {
      ...campaign,
      channel: name && channel,
      is_official: name && channel === 'whatsapp',
      recipient_type: name && random.pick(['segment', 'tag', 'all']),
      templates:
        name &&
        random.pick(templateWeights).map((weight, order) => ({
          id: String(100_000_000 + random.integer(900_000_000)),
          order,
          weight,
          name: `${slugOf(name).replaceAll('-', '_')}_v${order + 1}`,
          category: random.pick(['MARKETING', 'MARKETING', 'UTILITY']),
          language: 'pt_BR',
        })),
      metrics: sent_at && { recipients, sent, delivered, read, failed },
    };
  });
}

/** Oldest first. The last one has only the fields that every campaign has. */
function drawCampaigns(shop: Shop, everyDays: number, random: RandomSource): Campaign[] {
  const { start, until } = shop.calendar;
  const campaigns: Campaign[] = [];
  for (let day = start + 5 * dayMs; day < until + 2 * everyDays * dayMs; ) {
    campaigns.push(drawCampaign(day, shop, random));
    day += Math.round(everyDays * random.between(0.5, 1.5)) * dayMs;
  }
  const unnamed = { name: null, status: null, scheduling_type: null, scheduled_for: null };
  const updated_at = new Date(until);
  return [...campaigns, { ...unnamed, sent_at: null, created_at: updated_at, updated_at }];
}

function drawCampaign(day: number, { calendar }: Shop, random: RandomSource): Campaign {
  const { start, until } = calendar;
  // Between nine in the morning and eight in the evening in São Paulo.
  const dueAt = day + (12 + random.integer(12)) * hourMs;
  const createdAt = Math.max(start, Math.min(dueAt, until) - random.integer(9 * dayMs));
  const planned = dueAt > until ? 'scheduled' : 'sent';
  const status = random.pick([...Array(30).fill(planned), 'draft', 'draft', 'cancelled']);
  const changedAt = (status === 'sent' ? dueAt : createdAt) + random.integer(6 * dayMs);
  const scheduling_type = status === 'sent' && random.chance(0.3) ? 'immediate' : 'scheduled';
  return {
    name: `${themes[new Date(day).getUTCMonth()]} ${new Date(day).toISOString().slice(0, 10)}`,
    status,
    scheduling_type,
    scheduled_for: scheduling_type === 'immediate' || status === 'draft' ? null : new Date(dueAt),
    sent_at: status === 'sent' ? new Date(dueAt) : null,
    created_at: new Date(createdAt),
    updated_at: new Date(Math.min(until, changedAt)),
  };
}

/** Half of the customers that had joined by then. */
const audience = ({ sent_at }: Campaign, { createdAt }: Customers): number =>
  firstAbove(createdAt, Number(sent_at), createdAt.length) / 2;
