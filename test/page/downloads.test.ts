import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { fileReader } from '../http/formats/reading.ts';
import { addRow } from '../support/rows.ts';
import { addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { hasBrowser } from './browser.ts';
import { hostile, test as it, january, januaryBounds, paidJanuary } from './opened-page.ts';

const run = promisify(execFile);

describe.runIf(hasBrowser)('the page', () => {
  it('saves what each panel shows, without a request, with names and the words of the reader', {
    tags: ['slow'],
  }, async ({ open, database: { pool }, worker }) => {
    const organization_id = await addOrganization(pool);
    const customer_id = await addRow(pool, 'customers', { organization_id, name: '=Ana; "Zé"' });
    const values = { customer_id, created_at: '2026-01-10T02:30:00Z', currency: 'BRL' };
    const own = { order_number: '0012', utm_source: 'google', payment_status: 'paid' };
    const price = { purchase_value_in_cents: 123_456 };
    await addPurchase(pool, organization_id, { ...values, ...own, ...price });
    const { secret } = await addKey(pool, organization_id);
    await worker.syncAll();
    const zone = 'America/Sao_Paulo';
    const { enter, save, requests } = await open(
      `/#period=custom&from=2026-01-09&to=2026-01-10&interval=day&timezone=${zone}`,
      { locale: 'pt-BR' },
    );
    await enter(secret);
    const before = requests.length;
    const lines = async (panel: string) => {
      const { name, bytes } = await save(panel);
      expect(bytes.subarray(0, 3)).toEqual(Buffer.from([0xef, 0xbb, 0xbf]));
      return [name, ...bytes.subarray(3).toString().split('\r\n')];
    };
    const measures = ['Vendas', 'Pedidos', 'Clientes', 'Ticket médio'];
    const columns = [
      ...measures,
      ...measures.map((measure) => `${measure} (período comparado)`),
      'Moeda',
    ].join(';');
    const row = '1234,56;1;1;1234,56;0,00;0;0;;BRL';
    expect(await lines('series')).toEqual([
      'Vendas ao longo do tempo.csv',
      `Dia (${zone});${columns}`,
      `2026-01-09;${row}`,
      '2026-01-10;0,00;0;0;;0,00;0;0;;BRL',
      '',
    ]);
    expect(await lines('ranking')).toEqual([
      'Ranking.csv',
      `Origem;${columns}`,
      `google;${row}`,
      '',
    ]);
    expect((await lines('customer_types'))[2]).toBe(`Novos;${row}`);
    expect(await lines('customers')).toEqual([
      'Melhores clientes.csv',
      'Cliente;Vendas;Pedidos;Moeda',
      `"'=Ana; ""Zé""";1234,56;1;BRL`,
      '',
    ]);
    expect(await lines('purchases')).toEqual([
      'Últimos pedidos.csv',
      `Pedido;Cliente;Criado em (${zone});Status do pagamento;Valor;Moeda`,
      `'0012;"'=Ana; ""Zé""";2026-01-09 23:30:00;pago;1234,56;BRL`,
      '',
    ]);
    const [, header, first] = await lines('cohorts');
    expect(header).toMatch(/^Primeiro pedido;Clientes;1 mês depois;2 meses depois;/);
    expect(first).toMatch(/^jan. de 2026;1;0;0;/);
    expect(requests.slice(before).map((request) => request.url())).toEqual([]);
  });

  it('saves all purchases that are shown', { tags: ['slow'] }, async ({ show }) => {
    const { page, save } = await show(january);
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.locator('#purchases tbody tr').nth(19).waitFor();
    const { bytes } = await save('purchases');
    expect(bytes.toString().split('\r\n')).toHaveLength(22);
  });

  it('saves all matching purchases with the marks of the reader, in local time', {
    tags: ['slow'],
  }, async ({ show }) => {
    const { page, save } = await show(january.replace('UTC', 'America/Sao_Paulo'), {
      locale: 'pt-BR',
    });
    await page.evaluate('delete window.showSaveFilePicker');
    const { bytes } = await save('all');
    expect(bytes.toString()).toMatch(/;\d+,\d\d;/);
    expect(bytes.toString()).toContain(' (America/Sao_Paulo);');
  });

  it('saves amounts of several currencies apart, as the chart shows them', {
    tags: ['slow'],
  }, async ({ open, mixedSecret }) => {
    const { page, enter, loaded, save } = await open(`${january}&currencies=all`);
    await enter(mixedSecret);
    const lines = async () => (await save('series')).bytes.toString().split('\r\n');
    const line = () => page.locator('#requests pre').nth(1).textContent();
    const split = await lines();
    expect(split[0]).toBe('\ufeffDay (UTC),Currency,Order value,Orders,Customers,Average ticket');
    expect(split).toContain(`2026-01-10,BRL,'90071992547409.93,1,1,'90071992547409.93`);
    expect(split).toContain('2026-01-10,EUR,1.00,1,1,1.00');
    expect(await line()).toContain('/timeseries?interval=day&timezone=UTC&group_by=currency&');

    await page.locator('[data-measure=purchase_count]').click();
    await loaded();
    expect((await lines())[0]).toMatch(/^\ufeffDay \(UTC\),Order value,Orders,/);
    expect(await line()).not.toContain('currency');
  });

  it.for([
    { filter: 'status=paid', count: 9 },
    {
      filter: `status=all&utm_campaign=${encodeURIComponent(`${hostile} campaign 3`)}`,
      count: 1,
    },
  ])(
    'shows requests for curl, without the key, that return what it shows: $filter',
    { tags: ['slow'] },
    async ({ filter, count }, { show, fullShop, api, onTestFinished }) => {
      const folder = await temporaryDirectory();
      const files = await fileReader();
      onTestFinished(async () => {
        await files.close();
        await folder.remove();
      });
      const { page } = await show(`${paidJanuary}&${filter}`);
      await page.getByText('Requests of this view').click();
      const titles = await page.locator('#requests h3').allTextContents();
      const lines = await page.locator('#requests pre').allTextContents();
      expect(lines.join()).not.toContain(fullShop.secret);

      const filters = filter.replace('status=all&', '');
      const expected = (path: string, bounds = januaryBounds) =>
        api.get(`/v1/purchases${path}${bounds}&${filters}`, fullShop.secret);
      const report = async (parameters: string, bounds?: string) =>
        (await expected(`/report?${parameters}timezone=UTC&`, bounds)).body;
      const compared = `compare_to=previous_period&${januaryBounds}`;
      const totals = await report('', compared);
      expect(JSON.parse(totals).totals.purchase_count).toBe(count);
      const source = 'group_by=utm_source&order_by=-revenue_in_cents&limit=10&';
      const customers =
        'measures=revenue_in_cents,purchase_count&order_by=-revenue_in_cents&limit=10&';
      const cohorts = januaryBounds.replace(/^[^&]*/, 'created_since=2025-02-01T00:00:00.000Z');
      const sales = async (dimension: string, selection: string) => {
        const measures =
          'purchase_count,revenue_in_cents,discount_in_cents,shipping_cost_customer_in_cents';
        const ofAny = filters.replace('status=paid', '');
        const path = `/v1/purchases/report?group_by=${dimension}&measures=${measures}&timezone=UTC`;
        return (await api.get(`${path}&${selection}&${ofAny}`, fullShop.secret)).body;
      };
      const ofPaid = `order_by=-purchase_count&status=paid&${januaryBounds}`;
      const bodies = new Map([
        ['Totals', totals],
        ['Time series', await report('group_by=day&limit=1000&', compared)],
        ['From order to payment', await sales('status', compared)],
        ['Coupons', await sales('coupon', ofPaid)],
        ['Ranking', await report(source, compared)],
        [
          'New and returning customers',
          await report('group_by=customer_type&order_by=customer_type&', compared),
        ],
        ['Best customers', await report(`group_by=customer&expand=customer&${customers}`)],
        ['Cohorts', (await expected('/cohorts?periods=12&timezone=UTC&', cohorts)).body],
        ['Latest orders', (await expected('?limit=10&')).body],
        ['All orders, as Parquet', ''],
      ]);
      expect(titles).toEqual([...bodies.keys()]);
      const env = { ...process.env, KEY: fullShop.secret };
      for (const [index, title] of titles.entries()) {
        const line = lines[index] as string;
        const { stdout } = await run('sh', ['-c', line], { cwd: folder.path, env });
        expect(stdout, title).toBe(bodies.get(title));
      }
      const saved = await readFile(join(folder.path, 'purchases.parquet'));
      const { rawPayload } = await expected('/export?format=parquet&');
      const { rows } = await files.readParquet(saved);
      expect(rows).toHaveLength(count);
      expect(rows).toEqual((await files.readParquet(rawPayload)).rows);
    },
  );

  it('says that a download failed, and no more once one succeeds', { tags: ['slow'] }, async ({
    open,
    fullShop,
  }) => {
    const { page, requests, enter, save } = await open(paidJanuary, { locale: 'pt-BR' });
    await page.evaluate('delete window.showSaveFilePicker');
    await enter(fullShop.secret);
    const problem = page.locator('.download .problem');
    for (const kind of ['all', 'parquet']) {
      await page.route('**/v1/purchases/export*', (route) => route.abort());
      await page.locator(`[data-download=${kind}]`).click();
      await problem.waitFor();
      expect(await problem.textContent()).toMatch(/^Não foi possível acessar o serviço/);
      expect(await page.locator('.banner').count()).toBe(0);
      await page.unroute('**/v1/purchases/export*');
      const before = requests.length;
      await save(kind);
      await problem.waitFor({ state: 'hidden' });
      expect(requests.slice(before)).toHaveLength(1);
    }
  });

  it('downloads the whole selection as Parquet', { tags: ['slow'] }, async ({ open, fullShop }) => {
    const { page, enter, save } = await open(paidJanuary);
    await page.evaluate('delete window.showSaveFilePicker');
    await enter(fullShop.secret);
    const { name, bytes } = await save('parquet');
    expect(name).toBe('purchases.parquet');
    await page.getByText(/ saved$/).waitFor();
    const files = await fileReader();
    const { rows } = await files.readParquet(bytes);
    await files.close();
    expect(rows).toHaveLength(9);
  });
});
