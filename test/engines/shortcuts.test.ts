import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { shortcutSettings } from '../../src/duckdb/shortcuts.ts';

const fileOf = (path: string) => readFile(join(import.meta.dirname, '../..', path), 'utf8');

it('ARCHITECTURE.md has each shortcut of the engine with what is known of its gain, and the file that takes it', async () => {
  const architecture = await fileOf('ARCHITECTURE.md');
  const section = architecture.split(/^## /m).find((each) => each.startsWith('Shortcuts\n')) ?? '';
  const rows = [...section.matchAll(/^\| `(\w+)` \| (.*) \| `(.*)` \|$/gm)].map(
    ([, name = '', figure = '', path = '']) => ({ name, figure, path }),
  );
  expect(rows.map(({ name }) => name)).toEqual(Object.keys(shortcutSettings));
  for (const { name, figure, path } of rows) {
    expect(figure, name).toMatch(/\d|^not measured|^none/);
    expect(await fileOf(path), name).toContain(name);
  }
});
