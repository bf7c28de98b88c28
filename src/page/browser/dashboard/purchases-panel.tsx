import { pageLimits } from '../../../domain/purchase-query.ts';
import { PurchaseList } from '../components/purchase-list.tsx';
import { useDashboard } from './dashboard-state.ts';
import { NotLoaded, Panel } from './panel.tsx';

export function PurchasesPanel() {
  const { parts, showPurchases, fail } = useDashboard();
  const pages = parts.purchases?.value;
  const isLimited = (pages?.page.data.length ?? 0) > pageLimits.max;
  const csv = isLimited ? `CSV of the latest ${pageLimits.max}` : 'CSV';
  return (
    <Panel kind="purchases" part={parts.purchases} title="Latest purchases" csv={csv}>
      <div id="purchases">
        {pages === null && <NotLoaded />}
        {pages && (
          <PurchaseList
            pages={pages}
            timeZone={parts.purchases?.view.state.timezone}
            onMore={showPurchases}
            onProblem={fail}
          />
        )}
      </div>
    </Panel>
  );
}
