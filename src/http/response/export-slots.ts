import type { Credential } from '../../postgres/keys/api-keys.ts';
import { organizationSlots } from '../../queue/query-queue.ts';
import { ApiError } from './errors.ts';

/**
 * How many exports may run at the same time in this process. If there are two or more, one organization
 * leaves one to others: slow clients may occupy theirs for hours.
 */
type ExportLimits = { readonly perKey: number; readonly total: number };

/** The duration of an export depends on its client, so this is a guess. In seconds. */
const retryAfter = 10;

/** Takes a slot, which the first call of the returned function frees. Throws rate_limited if none is free. */
export type TakeExportSlot = (client: Pick<Credential, 'keyId' | 'organizationId'>) => () => void;

export function createExportSlots(limits: ExportLimits): TakeExportSlot {
  const perOrganization = organizationSlots(limits.total);
  const running = new Set<Parameters<TakeExportSlot>[0]>();
  const refuse = (message: string): never => {
    throw new ApiError('rate_limited', message, { retryAfter, limit: 'exports' });
  };
  return ({ keyId, organizationId }) => {
    const ofOrganization = [...running].filter((each) => each.organizationId === organizationId);
    const ofKey = ofOrganization.filter((each) => each.keyId === keyId).length;
    if (ofKey >= limits.perKey) {
      refuse(`This API key has ${ofKey} exports running, which is as many as it may have.`);
    }
    if (running.size >= limits.total) refuse('As many exports are running as the server allows.');
    if (ofOrganization.length >= perOrganization) {
      refuse('The API keys of this organization have as many exports running as they may have.');
    }
    const slot = { keyId, organizationId };
    running.add(slot);
    return () => void running.delete(slot);
  };
}
