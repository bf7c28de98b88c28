import { Dashboard } from './dashboard/dashboard.tsx';
import { ListView, listOfPath } from './list/list-view.tsx';
import { recordOfPath } from './record/load-record.ts';
import { RecordView } from './record/record-view.tsx';

export { Navigation } from './navigation.tsx';
export { Search } from './search.tsx';

/** The record or the list of the path, or the dashboard. */
export function View({ organization }: { readonly organization: string }) {
  const record = recordOfPath(location.pathname);
  if (record !== null) return <RecordView {...record} />;
  const list = listOfPath(location.pathname);
  return list === null ? <Dashboard organization={organization} /> : <ListView name={list} />;
}
