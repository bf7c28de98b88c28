import { describe, expect } from 'vitest';
import { hasBrowser } from './browser.ts';
import { test as it, january } from './opened-page.ts';

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
      expect(await page.title()).toBe(lang === 'en' ? 'Purchases' : 'Compras');
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
    await page.getByText('Nenhuma compra corresponde').waitFor();
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
});
