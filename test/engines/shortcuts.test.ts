import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { shortcutSettings } from '../../src/duckdb/shortcuts.ts';

const fileOf = (path: string) => readFile(join(import.meta.dirname, '../..', path), 'utf8');

/** A threshold as the table has it: a shortcut is always taken if its threshold is that of forced ones. */
function thresholdOf(name: string, { usual, forced }: { usual: number; forced: number }): string {
  if (usual === forced && !name.endsWith('Groups')) return 'always';
  if (!name.includes('Bytes')) return usual.toLocaleString('en');
  return usual < 2 ** 20 ? `${usual / 2 ** 10} KiB` : `${usual / 2 ** 20} MiB`;
}

it('ARCHITECTURE.md has each shortcut of the engine with its threshold, what is known of its gain, and the file that takes it', async () => {
  const architecture = await fileOf('ARCHITECTURE.md');
  const section = architecture.split(/^## /m).find((each) => each.startsWith('Shortcuts\n')) ?? '';
  const rows = [...section.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)].map(
    ([, name = '', rest = '']) => {
      const [threshold, , figure = '', path = ''] = rest.split(' | ');
      return { name, threshold, figure, path: path.replaceAll('`', '') };
    },
  );
  const documented = Object.fromEntries(rows.map(({ name, threshold }) => [name, threshold]));
  expect(documented).toEqual(
    Object.fromEntries(
      Object.entries(shortcutSettings).map(([name, each]) => [name, thresholdOf(name, each)]),
    ),
  );
  for (const { name, figure, path } of rows) {
    expect(figure, name).toMatch(/\d|^not measured|^none/);
    expect(await fileOf(path), name).toContain(name);
  }
});
