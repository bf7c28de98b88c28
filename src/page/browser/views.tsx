import { Dashboard } from './dashboard/dashboard.tsx';
import { RecordView, recordOfPath } from './record/record-view.tsx';

export { CustomerSearch } from './customer-search.tsx';

/** The record of the path, or the dashboard. */
export function View({ organization }: { readonly organization: string }) {
  const record = recordOfPath(location.pathname);
  return record === null ? <Dashboard organization={organization} /> : <RecordView {...record} />;
}
