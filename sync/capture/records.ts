/** Records of one organization, as lines of its log (src/purchase-store/log.ts). */
export type Records = { readonly lines: Buffer; readonly records: number };

export const noRecords: Records = { lines: Buffer.alloc(0), records: 0 };

const [upsert, tab, newline] = Buffer.from('u\t\n');

/** Whether a line has the columns of a purchase. The line of a deleted purchase has its id only. */
export const isUpsert = (line: Buffer): boolean => line[0] === upsert;

/** Each line, with the id of its purchase. */
export function* linesById(lines: Buffer): Generator<[id: string, line: Buffer]> {
  for (let begin = 0; begin < lines.length; ) {
    const end = lines.indexOf(newline as number, begin) + 1;
    const line = lines.subarray(begin, end);
    const afterId = line.indexOf(tab as number, 2);
    yield [line.toString('latin1', 2, afterId === -1 ? line.length - 1 : afterId), line];
    begin = end;
  }
}
