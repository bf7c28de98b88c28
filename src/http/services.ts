import type { PurchaseEngine } from '../domain/purchase-engine.ts';
import type { Database } from '../postgres/pool.ts';

/** What resources are served from. Passed explicitly to every one of them. */
export type Services = {
  /** The operational Postgres. */
  readonly database: Database;
  readonly purchases: PurchaseEngine;
};
