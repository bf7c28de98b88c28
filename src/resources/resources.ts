import type { ResourceRoutes } from '../http/route.ts';
import { attributes } from './attributes.ts';
import { customerPurchases } from './customer-purchases.ts';
import { customers } from './customers.ts';
import { emailCampaigns } from './email-campaigns.ts';
import { flows } from './flows.ts';
import { identity } from './identity.ts';
import { purchaseExport } from './purchase-export.ts';
import { purchaseStats } from './purchase-stats.ts';
import { purchases } from './purchases.ts';
import { segmentCustomers } from './segment-customers.ts';
import { segments } from './segments.ts';
import { tags } from './tags.ts';
import { templateCampaigns } from './template-campaigns.ts';

/** Every resource under /v1: a new one is a file of its own and a line here. */
export const resources: readonly ResourceRoutes[] = [
  identity,
  customers,
  customerPurchases,
  segments,
  segmentCustomers,
  purchases,
  purchaseStats,
  purchaseExport,
  tags,
  attributes,
  flows,
  emailCampaigns,
  templateCampaigns,
];
