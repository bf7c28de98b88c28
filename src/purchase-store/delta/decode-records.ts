import { isTextColumn, type PurchaseRow, purchaseColumns } from '../../domain/purchase.ts';
import { escapes } from '../format/copied-lines.ts';

/** A changed purchase: its row, or null if it was deleted. */
export type ChangedPurchase = { readonly id: bigint; readonly row: PurchaseRow | null };

/** Decodes complete batches: each changed purchase once, in its last state. */
export function decodeRecords(batches: Buffer): ChangedPurchase[] {
  const changed = new Map<bigint, PurchaseRow | null>();
  for (const line of linesOf(batches)) {
    const [kind, ...fields] = line.split('\t');
    if (kind === 'u') {
      const row = purchaseColumns.map((column, index) => decode(column, fields[index]));
      changed.set(row[0] as bigint, row);
    } else if (kind === 'd') changed.set(BigInt(fields[0] as string), null);
  }
  return [...changed].map(([id, row]) => ({ id, row }));
}

/** One by one: a text that is kept keeps its line in memory, but not the whole log. */
function* linesOf(batches: Buffer): Generator<string> {
  for (let from = 0; from < batches.length; ) {
    const newline = batches.indexOf('\n', from);
    const end = newline === -1 ? batches.length : newline;
    yield batches.toString('utf8', from, end);
    from = end + 1;
  }
}

function decode(
  column: (typeof purchaseColumns)[number],
  field: string | undefined,
): bigint | string | null {
  if (field === undefined) throw new Error(`a record of the log lacks ${column.name}`);
  if (field === '\\N') return null;
  return isTextColumn(column) ? withoutEscapes(field) : BigInt(field);
}

/** Texts of Postgres do not contain NUL, so NUL can stand for an escaped backslash. */
const nul = '\0';

/** Replaces escapes. `replace` with a callback took seconds for megabytes of backslashes. */
function withoutEscapes(text: string): string {
  if (!text.includes('\\')) return text;
  let rest = text.replaceAll('\\\\', nul);
  for (const [mark, character] of Object.entries(escapes)) {
    rest = rest.replaceAll(`\\${mark}`, character);
  }
  return rest.replaceAll(nul, '\\');
}
