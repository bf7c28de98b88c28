// Rows in the text format of COPY: columns end in a tab, rows in a newline.

export const COPY_NULL = '\\N';

export type CopyValue = string | number | boolean | null;

const ESCAPES: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

export function copyLine(values: readonly CopyValue[]): string {
  return `${values.map(copyText).join('\t')}\n`;
}

export function copyText(value: CopyValue): string {
  if (value === null) return COPY_NULL;
  if (typeof value !== 'string') return String(value);
  return value.replace(/[\\\t\n\r]/g, (character) => ESCAPES[character] as string);
}
