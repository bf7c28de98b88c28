import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, it } from 'vitest';
import { packageFile } from '../src/process/package-files.ts';

/** The files of the package. */
const files = ['', 'data', 'docs', 'src', 'sync', 'bench', 'test']
  .flatMap((folder) =>
    readdirSync(packageFile(folder), { recursive: folder !== '', encoding: 'utf8' }).map((name) =>
      join(folder, name),
    ),
  )
  .filter((path) => !path.includes('node_modules'));

/** The Markdown files of the package, and their texts. */
const documents = new Map(
  files
    .filter((path) => path.endsWith('.md'))
    .map((path) => [path, readFileSync(packageFile(path), 'utf8')]),
);

/** The anchors of the headings, as GitHub writes them. */
const anchorsOf = (text: string): Set<string> =>
  new Set(
    [...text.replace(/^ *```.*?^ *```/gms, '').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );

it('documents link to files and headings that exist', () => {
  const broken = [...documents].flatMap(([path, text]) =>
    [...text.matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(
      ([link, file = '', anchor]) => {
        const target = file === '' ? path : normalize(join(dirname(path), file));
        const linked = documents.get(target);
        const hasAnchor =
          linked === undefined || anchor === undefined || anchorsOf(linked).has(anchor);
        return existsSync(packageFile(target)) && hasAnchor ? [] : [`${path} ${link}`];
      },
    ),
  );
  expect(broken).toEqual([]);
});

it('documents name source files and folders that exist', () => {
  const missing = [...documents].flatMap(([path, text]) =>
    [...text.matchAll(/`((?:src|sync|bench|test|docs)\/[\w./-]*\w)`/g)].flatMap(([, named = '']) =>
      path === 'CHANGELOG.md' || existsSync(packageFile(named)) ? [] : [`${path} ${named}`],
    ),
  );
  expect(missing).toEqual([]);
});

it('comments name files that exist', () => {
  const missing = files
    .filter((path) => /\.(tsx?|sql|css)$/.test(path))
    .flatMap((path) => {
      const comments = readFileSync(packageFile(path), 'utf8').match(
        /\/\*[\s\S]*?\*\/|\/\/.*|^\s*--.*/gm,
      );
      const named = (comments ?? []).flatMap((comment) => comment.match(fileName) ?? []);
      return named
        .filter((name) => !files.some((file) => `/${file}`.endsWith(`/${name}`)))
        .map((name) => `${path} ${name}`);
    });
  expect(missing).toEqual([]);
});

const fileName = /[\w.-]+(?:\/[\w.-]+)*\.(?:tsx?|sql|md|css)\b/g;
