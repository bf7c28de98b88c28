import { pageLimits } from '../../../domain/purchase-query.ts';
import { PurchaseList } from '../components/purchase-list.tsx';
import { formatCount } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';
import { NotLoaded, Panel } from './panel.tsx';

export function PurchasesPanel() {
  const { parts, showPurchases, fail } = useDashboard();
  const pages = parts.purchases?.value;
  const isLimited = (pages?.page.data.length ?? 0) > pageLimits.max;
  const csv = isLimited ? texts.purchases.csvOfLatest(formatCount(pageLimits.max)) : 'CSV';
  return (
    <Panel kind="purchases" part={parts.purchases} title={texts.purchases.title} csv={csv}>
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
