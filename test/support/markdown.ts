import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';

/** The SQL blocks of a section of a document, up to the next heading of any level. */
export async function sqlOf(document: string, heading: string): Promise<string[]> {
  const blocks = (await sqlBySection(document)).get(heading) ?? [];
  expect(blocks, heading).not.toHaveLength(0);
  return blocks;
}

/** The headings of the sections that contain SQL blocks. */
export async function sectionsWithSql(document: string): Promise<string[]> {
  return [...(await sqlBySection(document))].flatMap(([heading, blocks]) =>
    blocks.length > 0 ? [heading] : [],
  );
}

/** The text of a file of docs/sql. */
export const sqlFile = (name: string): Promise<string> =>
  readFile(join(import.meta.dirname, '../../docs/sql', name), 'utf8');

async function sqlBySection(document: string): Promise<Map<string, string[]>> {
  const text = await readFile(join(import.meta.dirname, '../..', document), 'utf8');
  return new Map(
    text
      .split(/^#+ (?=\S)/m)
      .map((section) => [
        section.split('\n', 1)[0] ?? '',
        [...section.matchAll(/^```sql\n(.*?)^```/gms)].map(([, code]) => code as string),
      ]),
  );
}
