import { get } from './api.ts';
import type { Page } from './responses.ts';

/** The items of the first pages of a list, and how to read those of one more. */
export type Pages<Item> = {
  readonly page: Page<Item>;
  next(): Promise<Pages<Item>>;
};

type Options<Item> = {
  readonly signal?: AbortSignal;
  /** Adds to the items of a page what is in other lists. */
  complete?(items: readonly Item[], signal?: AbortSignal): Promise<readonly Item[]>;
};

export async function readPages<Item>(
  path: string,
  { signal, ...options }: Options<Item> = {},
  before: readonly Item[] = [],
): Promise<Pages<Item>> {
  const { body, cursor } = await get<Page<Item>>(path, signal);
  const items = options.complete ? await options.complete(body.data, signal) : body.data;
  const data = [...before, ...items];
  return {
    page: { ...body, data },
    next: () => {
      const after = new URLSearchParams({ starting_after: cursor ?? '' });
      return readPages(`${path.replace(/&starting_after=.*/, '')}&${after}`, options, data);
    },
  };
}
