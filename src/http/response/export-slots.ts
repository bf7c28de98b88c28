import { ApiError } from './errors.ts';

/** How many exports may run at the same time in this process. */
type ExportLimits = { readonly perKey: number; readonly inAll: number };

/** The duration of an export depends on its client, so this is a guess. In seconds. */
const retryAfter = 10;

export type ExportSlots = {
  /** Takes a slot, which the first call of the returned function frees. Throws rate_limited if none is free. */
  take(keyId: bigint): () => void;
};

export function createExportSlots({ perKey, inAll }: ExportLimits): ExportSlots {
  const running = new Map<bigint, number>();
  let total = 0;
  return {
    take(keyId) {
      const ofKey = running.get(keyId) ?? 0;
      if (ofKey >= perKey || total >= inAll) {
        const message =
          ofKey >= perKey
            ? `This API key has ${perKey} exports running, which is as many as it may have.`
            : 'As many exports are running as the server allows.';
        throw new ApiError('rate_limited', message, { retryAfter, limit: 'exports' });
      }
      running.set(keyId, ofKey + 1);
      total += 1;
      let isFreed = false;
      return () => {
        if (isFreed) return;
        isFreed = true;
        const left = (running.get(keyId) as number) - 1;
        if (left === 0) running.delete(keyId);
        else running.set(keyId, left);
        total -= 1;
      };
    },
  };
}
