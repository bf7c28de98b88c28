import { expect } from 'vitest';

/**
 * Requires that every element is closed in order, that every attribute is quoted, that other text has
 * no markup, and that the page loads no file.
 */
export function expectWholePage(page: string): void {
  const markup = page
    .replace(/^<!doctype html>/, '')
    .replace(/<style>[^<]*<\/style>/g, '')
    .replace(/<(\/?)([a-z][a-z0-9]*)((?: [a-z][a-zA-Z0-9-]*="[^"]*")*) ?(\/?)>/g, '\0$1$2$4\0');
  const open: string[] = [];
  for (const [index, piece] of markup.split('\0').entries()) {
    // Even pieces are text, odd pieces are tags.
    if (index % 2 === 0) expect(piece).not.toMatch(/[<>]|&(?!#?\w+;)/);
    else if (piece.startsWith('/')) expect(`/${open.pop()}`).toBe(piece);
    else if (!piece.endsWith('/')) open.push(piece);
  }
  expect(open).toEqual([]);
  // Links are fragments. The policy makes the browser refuse every file.
  expect(page).not.toMatch(/<(script|link|img|iframe|object|embed|use|image)\b/);
  expect(page).not.toMatch(/ (src|srcset|href|xlink:href|style|on[a-z]+)="(?!#)/);
  expect(page).not.toMatch(/url\(|@import|https?:\/\//);
  expect(page).toContain(`content="default-src 'none';`);
}
