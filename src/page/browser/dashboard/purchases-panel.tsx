import type { PurchasePages } from '../api/purchases.ts';
import { PurchaseList } from '../components/purchase-list.tsx';
import { amountCell, type CsvTable } from '../display/csv.ts';
import { statusLabel } from '../display/dimensions.ts';
import { texts } from '../language/language.ts';
import { localText } from '../view/calendar.ts';
import { useDashboard } from './dashboard-state.ts';
import type { View } from './load.ts';
import { Panel } from './panel.tsx';

export function PurchasesPanel() {
  const { showMorePurchases } = useDashboard();
  return (
    <Panel name="purchases" id="purchases" title={texts.purchases.title} table={tableOf}>
      {(pages, { state }) => (
        <PurchaseList pages={pages} timeZone={state.timezone} onMore={showMorePurchases} />
      )}
    </Panel>
  );
}

const tableOf = ({ page }: PurchasePages, { state: { timezone } }: View): CsvTable => ({
  columns: [
    texts.purchases.purchase,
    texts.dimensions.customer,
    `${texts.fields.created_at} (${timezone})`,
    texts.dimensions.status,
    texts.purchases.value,
    texts.dimensions.currency,
  ],
  rows: page.data.map((purchase) => [
    purchase.order_number ?? purchase.id,
    purchase.customer_name ?? purchase.customer_id,
    { plain: localText(purchase.created_at, timezone) },
    statusLabel(purchase.payment_status ?? ''),
    amountCell(purchase.purchase_value_in_cents, purchase.currency ?? null),
    purchase.currency ?? '',
  ]),
});
