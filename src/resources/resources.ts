import type { ResourceRoutes } from '../http/route.ts';
import { attributes } from './attributes.ts';
import { customers } from './customers.ts';
import { emailCampaigns } from './email-campaigns.ts';
import { flows } from './flows.ts';
import { identity } from './identity.ts';
import { purchaseChanges } from './purchase-changes.ts';
import { purchaseExport } from './purchase-export.ts';
import { purchaseStats } from './purchase-stats.ts';
import { purchaseTimeSeries } from './purchase-time-series.ts';
import { customerPurchases, purchases } from './purchases.ts';
import { segments } from './segments.ts';
import { tags } from './tags.ts';
import { templateCampaigns } from './template-campaigns.ts';

/** All resources under /v1, in the order of the reference. */
export const resources: readonly ResourceRoutes[] = [
  identity,
  customers,
  customerPurchases,
  segments,
  purchases,
  purchaseStats,
  purchaseTimeSeries,
  purchaseExport,
  purchaseChanges,
  tags,
  attributes,
  flows,
  emailCampaigns,
  templateCampaigns,
];
