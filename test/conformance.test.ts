import { existsSync, readFileSync } from 'node:fs';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

// CONFORMANCE.md lists the tests that prove each clause of the specification.

const sections = [
  ...['1', '2.1', '2.2', '2.3', '2.4', '2.5', '2.6', '2.7', '2.8', '2.9', '2.10', '2.11', '2.12'],
  ...['2.13', '2.14', '3', '4', '4.1', '4.2', '4.3', '4.4', '4.5', '5', '6', '7', '8', '9', '10'],
];
const separator = ' › ';
const inThisFolder = (path: string) => new URL(path, import.meta.url);

type Row = { readonly section: string; readonly clause: string; readonly shownBy: string };

function readRows(): Row[] {
  const rows: Row[] = [];
  let section = '';
  for (const line of readFileSync(inThisFolder('CONFORMANCE.md'), 'utf8').split('\n')) {
    section = /^## ([\d.]+) /.exec(line)?.[1] ?? section;
    if (!line.startsWith('| ') || line.startsWith('| Clause |')) continue;
    const [, clause = '', shownBy = '', ...rest] = line
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll('\\|', '|'));
    expect(rest, line).toEqual(['']);
    rows.push({ section, clause, shownBy });
  }
  return rows;
}

/** The titles of the tests in the source of a file, each after the titles of its `describe` blocks. */
function titlesIn(file: string): string[] {
  const text = readFileSync(inThisFolder(file), 'utf8');
  const titles: string[] = [];
  const visit = (node: ts.Node, within: readonly string[]): void => {
    const called = ts.isCallExpression(node) ? calledFunction(node.expression) : null;
    const title = ts.isCallExpression(node) ? node.arguments[0] : undefined;
    let inside = within;
    if (called !== null && title !== undefined && ts.isStringLiteralLike(title)) {
      inside = [...within, title.text];
      if (called !== 'describe') titles.push(inside.join(separator));
    }
    ts.forEachChild(node, (child) => visit(child, inside));
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest), []);
  return titles;
}

/** `it` for `it`, `it.each(…)` and `it.skipIf(…)`. Null if the call defines no test. */
function calledFunction(callee: ts.Expression): string | null {
  if (ts.isIdentifier(callee)) {
    return ['it', 'test', 'describe'].includes(callee.text) ? callee.text : null;
  }
  if (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) {
    return calledFunction(callee.expression);
  }
  return ts.isTaggedTemplateExpression(callee) ? calledFunction(callee.tag) : null;
}

/** The problem of a reference to a test, or null. */
function problemOf(reference: string): string | null {
  const [file = '', ...title] = reference.split(separator);
  if (!/^[\w/-]+\.test\.ts$/.test(file) || title.length === 0) return 'is no file › title';
  if (!existsSync(inThisFolder(file))) return 'names a file that does not exist';
  const named = title.join(separator);
  const titles = titlesIn(file);
  // Titles that end with the quoted parts, or else titles that contain the quoted text.
  const whole = titles.filter((one) => `${separator}${one}`.endsWith(`${separator}${named}`));
  const matching = new Set(whole.length > 0 ? whole : titles.filter((one) => one.includes(named)));
  if (matching.size === 0) return 'names no test of that file';
  return matching.size === 1 ? null : `names several: ${[...matching].join('; ')}`;
}

describe('the table of conformance', () => {
  const rows = readRows();

  it('has every section of the specification', () => {
    expect([...new Set(rows.map(({ section }) => section))]).toEqual(sections);
  });

  it('lists existing tests for every clause, or states why there are none', {
    tags: ['slow'],
  }, () => {
    const problems: string[] = [];
    for (const { section, clause, shownBy } of rows) {
      if (/^not testable: \S/.test(shownBy)) continue;
      const references = [...shownBy.matchAll(/`([^`]+)`/g)].map(([, one]) => String(one));
      const rest = shownBy.replaceAll(/`[^`]+`/g, '').replaceAll('<br>', '');
      if (references.length === 0 || rest.trim() !== '') {
        problems.push(`${section} ${clause}: must list tests only`);
      }
      for (const reference of references) {
        const problem = problemOf(reference);
        if (problem !== null) problems.push(`${section} ${clause}: ${reference} ${problem}`);
      }
    }
    expect(problems).toEqual([]);
  });

  it('has no clause twice in one section', () => {
    const clauses = rows.map(({ section, clause }) => `${section} ${clause}`);
    expect(clauses.filter((clause, index) => clauses.indexOf(clause) !== index)).toEqual([]);
  });
});
