import type { ComponentType } from 'preact';
import { listOfPath, recordOfPath } from './view/path.ts';

type View = ComponentType<{ readonly organization: string }>;

/** The record or the list of a path, or the dashboard. The browser loads the code of one of them. */
async function loadView(path: string): Promise<View> {
  const record = recordOfPath(path);
  if (record !== null) {
    const { RecordView } = await import('./record/record-view.tsx');
    return () => <RecordView {...record} />;
  }
  const list = listOfPath(path);
  if (list !== null) {
    const { ListView } = await import('./list/list-view.tsx');
    return () => <ListView name={list} />;
  }
  return (await import('./dashboard/dashboard.tsx')).Dashboard;
}

/** What only a page with a key has: the search and the navigation of its head, and the view of a path. */
export async function loadViews(path: string) {
  const [{ Search }, { Navigation }, View] = await Promise.all([
    import('./search.tsx'),
    import('./navigation.tsx'),
    loadView(path),
  ]);
  return { Search, Navigation, View };
}
