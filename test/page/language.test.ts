import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { platforms } from '../../src/domain/purchase.ts';
import { texts as en } from '../../src/page/browser/language/en.ts';
import { texts as pt } from '../../src/page/browser/language/pt.ts';
import { filters } from '../../src/page/browser/view/filters.ts';
import { hasBrowser } from './browser.ts';
import { test as it, january } from './opened-page.ts';

const folders = ['customers', 'segments', 'flows', 'email-campaigns', 'template-campaigns'];

/** Without purchases, of a period before all of them, and with values that the API refuses. */
const dashboards = [
  '/#period=last7&timezone=UTC&utm_source=none&min_value_in_cents=1000&status=paid',
  '/#period=custom&from=1990-01-01&to=2026-01-31&interval=hour',
  '/#period=all&timezone=UTC&customer_id=nobody',
];

/** Names, commands and data of the shop, which are in no language. */
const names = new Set([
  ...[
    'CSV',
    'Parquet',
    'UTC',
    'curl',
    'npm start',
    'npx crm-data-service keys create',
    'crm_live_…',
    'cus_…',
  ],
  ...['Mixed', 'nobody', 'none', 'customer_created', 'whatsapp', 'MARKETING'],
  ...['pt_BR', ...platforms],
]);

/** Whether a text has a text of the shop, is an id, a currency, a line for a shell, or has no letter. */
const isData = (text: string): boolean =>
  names.has(text) || /<img|^\w{3}_\w{12}$|^[A-Z]{3}$|^curl |^R\$[\d.,]+$|^[^\p{L}]*$/u.test(text);

/** All texts that a reader may see or hear: of elements, attributes and the window. */
const textsOf = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const texts = new Set([document.title]);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { parentElement, textContent } = walker.currentNode;
      if (!parentElement.matches('noscript, #time-zone option')) texts.add(textContent.trim().replaceAll('\u00a0', ' '));
    }
    for (const element of document.querySelectorAll('*')) {
      for (const name of ['aria-label', 'title', 'placeholder', 'alt', 'data-name']) {
        texts.add(element.getAttribute(name)?.trim() ?? '');
      }
    }
    return [...texts];
  })()`);

/** The texts of a catalogue, by the path of their keys. */
function entriesOf(catalogue: object, path = ''): [string, unknown][] {
  return Object.entries(catalogue).flatMap(([key, value]): [string, unknown][] =>
    typeof value === 'object' ? entriesOf(value, `${path}${key}.`) : [[path + key, value]],
  );
}

/** Texts that are right in both languages. */
const equal = new Set(
  entriesOf(en).flatMap(([path, text]) =>
    entriesOf(pt).some(([other, one]) => other === path && one === text) ? [String(text)] : [],
  ),
);

describe.runIf(hasBrowser)('the page', { tags: ['slow'] }, () => {
  it.for([
    { languages: ['pt-BR', 'en'], lang: 'pt-BR', revenue: 'R$ 351,00', day: '10 de jan. de 2026' },
    { languages: ['pt-PT'], lang: 'pt-BR', revenue: '351,00 R$', day: '10/01/2026' },
    { languages: ['en-GB', 'pt-BR'], lang: 'en', revenue: 'R$351.00', day: '10 Jan 2026' },
    { languages: ['de-DE', 'pt'], lang: 'pt-BR', revenue: 'R$ 351,00', day: '10 de jan. de 2026' },
    { languages: ['ja-JP'], lang: 'en', revenue: 'R$351.00', day: 'Jan 10, 2026' },
  ])(
    'has the first language of the browser that it knows, with the formats of its country: $languages',
    async ({ languages, lang, revenue, day }, { open, fullShop }) => {
      const { page, enter } = await open(january);
      await page.addInitScript(
        `Object.defineProperty(navigator, 'languages', { value: ${JSON.stringify(languages)} })`,
      );
      await page.reload();
      await enter(fullShop.secret);
      expect(await page.locator('html').getAttribute('lang')).toBe(lang);
      expect(await page.title()).toBe(lang === 'en' ? 'Orders' : 'Pedidos');
      const value = await page.locator('#totals .card-value').first().textContent();
      expect(value?.replaceAll('\u00a0', ' ')).toBe(revenue);
      await page.locator('.table-of-chart summary').click();
      const days = page.locator('#chart-table tbody th');
      expect(await days.nth(9).textContent()).toBe(day);
    },
  );

  it('changes the language by a button, and keeps it with the key and the view', async ({
    show,
  }) => {
    const { page, context, loaded } = await show(`${january}&utm_source=none`);
    expect(await page.evaluate('localStorage.length')).toBe(0);
    await page.getByRole('button', { name: 'Português' }).click();
    await page.getByText('Nenhum pedido encontrado').waitFor();
    expect(page.url()).toContain('utm_source=none');
    await page.reload();
    await loaded();
    expect(await page.locator('html').getAttribute('lang')).toBe('pt-BR');
    const other = await context.newPage();
    await other.goto(page.url());
    await other.getByLabel('Chave da API').waitFor();
    await other.getByRole('button', { name: 'English' }).click();
    await other.getByLabel('API key').waitFor();
  });

  it('has no English text in Portuguese, of elements, attributes, announcements or problems', async ({
    open,
    fullShop,
    mixedSecret,
    api,
  }) => {
    const records = await Promise.all(
      folders.map(async (folder) => {
        const { data } = (await api.get(`/v1/${folder}?limit=1`, fullShop.secret)).json();
        return `/app/${folder}/${data[0].id}`;
      }),
    );
    const textsIn = async (locale: string) => {
      const found = new Set<string>();
      const { page, context, enter, loaded } = await open('/', { locale });
      const collect = async () => {
        for (const text of await textsOf(page)) found.add(text);
      };
      const visit = async (view: string) => {
        await page.goto(new URL(view, page.url()).href);
        await loaded();
        await collect();
      };
      // The form of the key, and its problems.
      for (const key of ['', 'ç', 'wrong']) {
        const problem = () => page.locator('#key-problem').textContent();
        const before = await problem();
        await page.locator('#key').fill(key);
        await page.keyboard.press('Enter');
        await expect.poll(problem).not.toBe(before);
        await collect();
      }
      await enter(mixedSecret);
      await collect();
      await page.evaluate('sessionStorage.clear()');
      await page.reload();
      await enter(fullShop.secret);
      for (const view of [...records, '/app/customers/cus_nobody', ...dashboards])
        await visit(view);
      // What opens.
      await visit(january);
      for (const summary of await page.locator('summary').all()) await summary.click();
      await page.locator('#add-filter').click();
      for (const { name } of filters) {
        await page.locator('#filter-name').selectOption(name);
        await collect();
      }
      await page.locator('#filter-form [type=submit]').click();
      await page.locator('#chart .u-over').hover();
      await page.getByRole('searchbox').fill('nobody');
      await page.locator('#found').waitFor();
      await collect();
      await context.setOffline(true);
      await page.locator('#refresh').click();
      await page.locator('.banner').waitFor();
      await collect();
      return found;
    };
    const [english, portuguese] = await Promise.all([textsIn('en-US'), textsIn('pt-BR')]);
    expect(english.size).toBeGreaterThan(150);
    const untranslated = [...portuguese].filter(
      (text) => english.has(text) && !isData(text) && !equal.has(text),
    );
    expect(untranslated).toEqual([]);
  });
});
