import type pg from 'pg';
import {
  attributeCount,
  attributeLines,
  COPY_ATTRIBUTES,
  drawAttributeDefinitions,
} from './attributes.ts';
import { copyRows } from './copy-rows.ts';
import { drawCouponSets } from './coupons.ts';
import { planCustomers } from './customer-plan.ts';
import { totalPaidPurchases } from './customer-totals.ts';
import { COPY_CUSTOMERS, customerLines } from './customers.ts';
import { COPY_EMAIL_CAMPAIGNS, emailCampaignLines, planEmailCampaigns } from './email-campaigns.ts';
import { COPY_FLOWS, FLOW_COUNT, flowLines } from './flows.ts';
import { lockIdBlocks, reserveIdBlock } from './id-block.ts';
import { instantText } from './instants.ts';
import { createOrderNumberSource } from './order-numbers.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { planPurchases } from './purchase-planner.ts';
import { COPY_PURCHASES, type PurchaseWriting, purchaseLines } from './purchases.ts';
import {
  COPY_SEGMENT_CUSTOMERS,
  COPY_SEGMENTS,
  planSegments,
  segmentCustomerLines,
  segmentLines,
} from './segments.ts';
import { COPY_CUSTOMER_TAGS, COPY_TAGS, customerTagLines, TAG_COUNT, tagLines } from './tags.ts';
import {
  COPY_TEMPLATE_CAMPAIGNS,
  planTemplateCampaigns,
  templateCampaignLines,
} from './template-campaigns.ts';
import { createTrafficSource } from './traffic.ts';

export type OrganizationSize = {
  customers: number;
  purchases: number;
  onProgress: (purchasesDone: number) => void;
};

/**
 * Bounds what Postgres queues up for the triggers and foreign keys of one
 * statement, and lets progress tell the truth.
 */
const PURCHASES_PER_COPY = 50_000;

/** Writes one organization in the transaction that the client is in; returns its id. */
export async function seedOrganization(
  client: pg.Client,
  profile: OrganizationProfile,
  size: OrganizationSize,
): Promise<string> {
  const plan = planOrganization(profile, size);
  await lockIdBlocks(client);
  const organizationId = await insertOrganization(client, profile);
  const firstIds = await reserveFirstIds(client, plan);
  for (const [statement, lines] of resourceCopies(profile, plan, organizationId, firstIds)) {
    await copyRows(client, statement, lines);
  }
  await copyPurchases(client, size.onProgress, {
    plan: plan.purchases,
    couponSets: plan.couponSets,
    drawOrderNumber: createOrderNumberSource(profile),
    drawTraffic: createTrafficSource(profile, plan.emailCampaigns, plan.templateCampaigns),
    organizationId,
    firstId: firstIds.purchases,
    firstCustomerId: firstIds.customers,
  });
  return organizationId;
}

type OrganizationPlan = ReturnType<typeof planOrganization>;

/** Everything that rows of different resources must agree on. */
function planOrganization(profile: OrganizationProfile, size: OrganizationSize) {
  const couponSets = drawCouponSets(profile);
  const customers = planCustomers(profile, size.customers);
  const purchases = planPurchases(profile, customers, couponSets, size.purchases);
  const totals = totalPaidPurchases(purchases, size.customers);
  return {
    couponSets,
    customers,
    purchases,
    totals,
    attributes: drawAttributeDefinitions(profile),
    emailCampaigns: planEmailCampaigns(profile),
    templateCampaigns: planTemplateCampaigns(profile),
    segments: planSegments(profile, customers, totals),
  };
}

type FirstIds = Awaited<ReturnType<typeof reserveFirstIds>>;

async function reserveFirstIds(client: pg.Client, plan: OrganizationPlan) {
  const reserve = (table: string, count: number) => reserveIdBlock(client, table, count);
  return {
    customers: await reserve('customers', plan.customers.count),
    segments: await reserve('segments', plan.segments.length),
    tags: await reserve('tags', TAG_COUNT),
    attributes: await reserve('attributes', attributeCount(plan.attributes)),
    flows: await reserve('flows', FLOW_COUNT),
    emailCampaigns: await reserve('email_campaigns', plan.emailCampaigns.length),
    templateCampaigns: await reserve('template_campaigns', plan.templateCampaigns.length),
    purchases: await reserve('purchases', plan.purchases.count),
  };
}

/** All but the purchases, referenced rows first. The lines are drawn when they are read. */
function resourceCopies(
  profile: OrganizationProfile,
  plan: OrganizationPlan,
  organization: string,
  ids: FirstIds,
): [statement: string, lines: Iterable<string>][] {
  const { customers, totals, attributes, segments, emailCampaigns, templateCampaigns } = plan;
  return [
    [
      COPY_CUSTOMERS,
      customerLines(profile, customers, totals, attributes, organization, ids.customers),
    ],
    [COPY_SEGMENTS, segmentLines(profile, segments, organization, ids.segments)],
    [
      COPY_SEGMENT_CUSTOMERS,
      segmentCustomerLines(segments, organization, ids.segments, ids.customers),
    ],
    [COPY_TAGS, tagLines(profile, organization, ids.tags)],
    [
      COPY_CUSTOMER_TAGS,
      customerTagLines(profile, customers.count, organization, ids.tags, ids.customers),
    ],
    [COPY_ATTRIBUTES, attributeLines(profile, attributes, organization, ids.attributes)],
    [COPY_FLOWS, flowLines(profile, customers.count, organization, ids.flows)],
    [
      COPY_EMAIL_CAMPAIGNS,
      emailCampaignLines(profile, emailCampaigns, customers, organization, ids.emailCampaigns),
    ],
    [
      COPY_TEMPLATE_CAMPAIGNS,
      templateCampaignLines(
        profile,
        templateCampaigns,
        customers,
        organization,
        ids.templateCampaigns,
      ),
    ],
  ];
}

async function insertOrganization(
  client: pg.Client,
  profile: OrganizationProfile,
): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    'insert into organizations (name, created_at) values ($1, $2) returning id',
    [profile.name, instantText(profile.calendar.start)],
  );
  return (rows[0] as { id: string }).id;
}

async function copyPurchases(
  client: pg.Client,
  onProgress: (purchasesDone: number) => void,
  writing: PurchaseWriting,
): Promise<void> {
  for (let from = 0; from < writing.plan.count; from += PURCHASES_PER_COPY) {
    const to = Math.min(writing.plan.count, from + PURCHASES_PER_COPY);
    await copyRows(client, COPY_PURCHASES, purchaseLines(writing, from, to));
    onProgress(to);
  }
}
