/** Records of one organization, as lines of its log (src/purchase-store/format/log.ts). */
export type Records = { readonly lines: Buffer; readonly records: number };

export const noRecords: Records = { lines: Buffer.alloc(0), records: 0 };

const [upsert] = Buffer.from('u');

/** Whether a line has the columns of a purchase. The line of a deleted purchase has its id only. */
export const isUpsert = (line: Buffer): boolean => line[0] === upsert;
