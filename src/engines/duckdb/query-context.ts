import type { DuckDBConnection } from '@duckdb/node-api';
import type { Shortcuts } from '../../duckdb/shortcuts.ts';
import type { PeriodTables } from './calendar/period-tables.ts';
import type { Generation } from './serving/generation.ts';

/** What queries of an instance share. */
export type QueryContext = {
  readonly periodTables: PeriodTables;
  readonly shortcuts: Shortcuts;
};

/** One version of an organization's purchases, for one query. */
export type Reading = {
  readonly connection: DuckDBConnection;
  readonly generation: Generation;
  readonly context: QueryContext;
};
