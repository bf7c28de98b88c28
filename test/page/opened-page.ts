import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import type {
  Browser,
  BrowserContext,
  BrowserContextOptions,
  Page,
  Request,
} from 'playwright-core';
import { expect } from 'vitest';
import { addFullShop, type FullShop } from '../http/full-shop.ts';
import type { TestApi } from '../support/api.ts';
import { test as base } from '../support/fixtures.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { launchBrowser } from './browser.ts';

/** Text that would run if the page read it as HTML. */
export const hostile = `<img src=x onerror="document.title='run'">'"&`;

/** Paid purchases: every third of `january`, from the first one. */
export const paidJanuary = '/#period=custom&from=2026-01-01&to=2026-01-27&timezone=UTC';
/** Purchases of 0 to 26 reais, one a day from 1 January in UTC, of every payment status. */
export const january = `${paidJanuary}&status=all`;
/** The parameters of this period. */
export const januaryBounds =
  'created_since=2026-01-01T00:00:00.000Z&created_until=2026-01-27T23:59:59.999999Z';

type OpenedPage = {
  readonly page: Page;
  readonly context: BrowserContext;
  /** All requests of the page, also those that failed. */
  readonly requests: readonly Request[];
  /** Errors of scripts, and violations of the Content-Security-Policy. */
  readonly errors: readonly string[];
  /** Enters a key, and waits for the data. */
  enter(secret: string): Promise<void>;
  /** Waits until the page shows the data of its URL. */
  loaded(): Promise<void>;
  /** Clicks a button that downloads, and returns the file. */
  save(button: string): Promise<{ readonly name: string; readonly bytes: Buffer }>;
};

type OpenPage = (
  path?: string,
  options?: BrowserContextOptions & { readonly origin?: string },
) => Promise<OpenedPage>;

/** A new shop, which adds purchases with these values. */
export async function addGrowingShop(
  pool: Parameters<typeof addOrganization>[0],
  values: Readonly<Record<string, string>>,
) {
  const organizationId = await addOrganization(pool);
  const customer_id = await addCustomer(pool, organizationId);
  const add = () => addPurchase(pool, organizationId, { customer_id, ...values });
  const { secret } = await addKey(pool, organizationId);
  return { secret, add };
}

/** The day after the last purchase of the shop. */
const now = '2026-01-28T12:00:00Z';

async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions,
): Promise<OpenedPage> {
  const context = await browser.newContext({
    locale: 'en-US',
    timezoneId: 'America/Sao_Paulo',
    // A contrast in the middle of a transition is not that of the page.
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(15_000);
  await context.clock.setFixedTime(now);
  const page = await context.newPage();
  const requests: Request[] = [];
  const errors: string[] = [];
  page.on('request', (request) => requests.push(request));
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy/i.test(message.text())) errors.push(message.text());
  });
  await page.goto(url);
  const loaded = async () => {
    await page.locator('#results[aria-busy=false]').waitFor({ state: 'attached' });
  };
  return {
    page,
    context,
    requests,
    errors,
    loaded,
    enter: async (secret) => {
      await page.locator('#key').fill(secret);
      await page.locator('.welcome [type=submit]').click();
      await loaded();
    },
    save: async (button) => {
      const started = page.waitForEvent('download');
      await page.locator(`[data-download=${button}]`).click();
      const file = await started;
      return { name: file.suggestedFilename(), bytes: await readFile(await file.path()) };
    },
  };
}

export const originOf = ({ app }: TestApi): string =>
  `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;

const file = { scope: 'file' } as const;

/** One service and one browser for the tests of a file. */
export const test = base
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('browser', file, async ({}, { onCleanup }) => {
    const browser = await launchBrowser();
    onCleanup(() => browser.close());
    return browser;
  })
  .extend(
    'fullShop',
    file,
    ({ database }): Promise<FullShop> => addFullShop(database.pool, hostile, 27),
  )
  /** The key of an organization with a purchase in reais, which exceeds a double, and one of 1 euro. */
  .extend('mixedSecret', file, async ({ database: { pool } }) => {
    const organizationId = await addOrganization(pool, 'Mixed');
    const customer_id = await addCustomer(pool, organizationId);
    const values = { customer_id, created_at: '2026-01-10T12:00:00Z' };
    const large = { ...values, currency: 'BRL', purchase_value_in_cents: 2n ** 53n + 1n };
    await addPurchase(pool, organizationId, large);
    await addPurchase(pool, organizationId, { ...values, currency: 'EUR' });
    const { secret } = await addKey(pool, organizationId);
    return secret;
  })
  .extend('origin', file, async ({ api, worker, fullShop: _, mixedSecret: __ }) => {
    await worker.syncAll();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    return originOf(api);
  })
  .extend('open', async ({ browser, origin }, { onCleanup }): Promise<OpenPage> => {
    const opened: OpenedPage[] = [];
    onCleanup(async () => {
      for (const { context, errors } of opened) {
        await context.close();
        expect(errors).toEqual([]);
      }
    });
    return async (path = '/', { origin: other = origin, ...options } = {}) => {
      const page = await openPage(browser, other + path, options);
      opened.push(page);
      return page;
    };
  })
  /** Opens the page and enters the key of `fullShop`. */
  .extend('show', ({ open, fullShop }) => async (...args: Parameters<OpenPage>) => {
    const opened = await open(...args);
    await opened.enter(fullShop.secret);
    return opened;
  });
