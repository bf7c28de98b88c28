import type { Shortcuts } from '../../duckdb/shortcuts.ts';
import type { PeriodTables } from './calendar/period-tables.ts';

/** What queries of an instance share. */
export type QueryContext = {
  readonly periodTables: PeriodTables;
  readonly shortcuts: Shortcuts;
};
