import { connectCustomerSearch } from './customer-search/customer-search.ts';
import { openDashboard } from './dashboard/dashboard.ts';
import { openRecord, recordOfPath } from './record/record-view.ts';

/** Shows the record of the path, or the dashboard. `onKeyRefused` asks for another key. */
export function openView(onKeyRefused: (problem: string) => void): void {
  connectCustomerSearch(onKeyRefused);
  const record = recordOfPath(location.pathname);
  if (record === null) openDashboard(onKeyRefused);
  else openRecord(record, onKeyRefused);
}
