import type { ResourceRoutes } from '../http/route.ts';
import { customers } from './customers/customers.ts';
import { segments } from './customers/segments.ts';
import { identity } from './identity.ts';
import { plainRecords } from './plain-records.ts';
import { purchaseChanges } from './purchases/purchase-changes.ts';
import { purchaseCohorts } from './purchases/purchase-cohorts.ts';
import { purchaseExport } from './purchases/purchase-export.ts';
import { purchaseReport } from './purchases/purchase-report.ts';
import { purchaseSearch } from './purchases/purchase-search.ts';
import { purchaseStats } from './purchases/purchase-stats.ts';
import { purchaseTimeSeries } from './purchases/purchase-time-series.ts';
import { customerPurchases, purchases } from './purchases/purchases.ts';

/** All resources under /v1, in the order of the reference. */
export const resources: readonly ResourceRoutes[] = [
  identity,
  customers,
  customerPurchases,
  segments,
  purchases,
  purchaseSearch,
  purchaseStats,
  purchaseTimeSeries,
  purchaseReport,
  purchaseCohorts,
  purchaseExport,
  purchaseChanges,
  plainRecords,
];
