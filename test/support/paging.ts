import { expect } from 'vitest';
import type { TestApi } from './api.ts';

export type Item = { readonly id: string; readonly [field: string]: unknown };

/** Reads all pages of a list. Requires the status 200. */
export async function readPages(
  api: TestApi,
  secret: string,
  url: string,
  limit: number,
): Promise<Item[][]> {
  const pages: Item[][] = [];
  let cursor = '';
  for (;;) {
    const separator = url.includes('?') ? '&' : '?';
    const response = await api.get(`${url}${separator}limit=${limit}${cursor}`, secret);
    expect(response.statusCode, response.body).toBe(200);
    const { data, has_more: hasMore } = response.json<{ data: Item[]; has_more: boolean }>();
    pages.push(data);
    if (!hasMore) return pages;
    expect(data).toHaveLength(limit);
    cursor = `&starting_after=${data.at(-1)?.id}`;
  }
}

/** The ids of all items of a list, in order. */
export async function readIds(api: TestApi, secret: string, url: string): Promise<string[]> {
  return (await readPages(api, secret, url, 100)).flat().map(({ id }) => id);
}
