import { ApiError } from './errors.ts';

/** How many exports may run at the same time in this process. */
type ExportLimits = { readonly perKey: number; readonly total: number };

/** The duration of an export depends on its client, so this is a guess. In seconds. */
const retryAfter = 10;

/** Takes a slot, which the first call of the returned function frees. Throws rate_limited if none is free. */
export type TakeExportSlot = (keyId: bigint) => () => void;

export function createExportSlots(limits: ExportLimits): TakeExportSlot {
  const runningByKey = new Map<bigint, number>();
  let running = 0;
  return (keyId) => {
    const ofKey = runningByKey.get(keyId) ?? 0;
    if (ofKey >= limits.perKey || running >= limits.total) {
      const message =
        ofKey >= limits.perKey
          ? `This API key has ${limits.perKey} exports running, which is as many as it may have.`
          : 'As many exports are running as the server allows.';
      throw new ApiError('rate_limited', message, { retryAfter, limit: 'exports' });
    }
    runningByKey.set(keyId, ofKey + 1);
    running += 1;
    let isFreed = false;
    return () => {
      if (isFreed) return;
      isFreed = true;
      const left = (runningByKey.get(keyId) as number) - 1;
      if (left === 0) runningByKey.delete(keyId);
      else runningByKey.set(keyId, left);
      running -= 1;
    };
  };
}
