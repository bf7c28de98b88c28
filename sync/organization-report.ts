import { z } from 'zod';

/** A failure that the worker retries. */
const failure = z.object({
  message: z.string(),
  advice: z.string(),
  at: z.iso.datetime(),
  attempts: z.number(),
  retryAt: z.iso.datetime(),
});

/** The states of an organization, as `status` and metrics show them (organization.ts). */
export const organizationStates = [
  /** Each tick includes it. */
  'live',
  'waiting to load',
  'loading',
  'rebuilding',
  'compacting',
  'catching up',
  /** The last attempt failed, and no later one has succeeded. */
  'failed',
] as const;
export type OrganizationState = (typeof organizationStates)[number];

/** What a worker reports of an organization. */
export const organizationReport = z.object({
  state: z.enum(organizationStates),
  progress: z
    .object({
      loaded: z.number(),
      expected: z.number(),
      /** Since the load began or resumed. */
      rowsPerSecond: z.number(),
    })
    .nullable(),
  /** The failure of the last attempt; null if it succeeded. */
  failure: failure.nullable(),
});
export type OrganizationReport = z.output<typeof organizationReport>;
