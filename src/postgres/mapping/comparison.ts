import type { Connection } from '../connection/pool.ts';
import { guardDeletions } from './deletions.ts';
import { type Mapped, mapKeys, mapRange } from './map-rows.ts';
import type { Gone } from './map-statement.ts';
import { type MappedView, type Mapping, mappedViews, storedTables } from './mapping-definition.ts';

export type Compared = Mapped & {
  /** Rows of the view that were compared. */
  readonly rows: number;
};

export type Comparison = {
  /** The next step of the comparison, in a mapping transaction. Null when all rows are compared. */
  step(connection: Connection): Promise<Compared | null>;
};

export type ComparisonOptions = {
  /** Rows of one step. */
  readonly limit: number;
  readonly acceptDeletions?: boolean;
};

/** A range of the external ids of a view that is compared step by step. */
export type ViewRange = {
  /** The last external id that was compared. */
  after: string | null;
  readonly until: string | null;
  isEnd: boolean;
};

/** All of a view, or the range of it with these bounds. */
export const createViewRange = ({
  after = null,
  until = null,
}: Partial<ViewRange> = {}): ViewRange => ({
  ...{ after, until },
  isEnd: false,
});

/**
 * Compares all rows of the views with the stored ones in the order of external ids, and corrects what
 * differs. After a failure, the same step can be repeated.
 */
export function createComparison(mapping: Mapping, options: ComparisonOptions): Comparison {
  const views = mappedViews.map((view) => ({
    comparison: compareView(mapping, view, options),
    range: createViewRange(),
  }));
  return {
    async step(connection) {
      const [view] = views;
      if (view === undefined) return null;
      const { comparison, range } = view;
      if (!range.isEnd) return comparison.step(connection, range);
      const ended = await comparison.end(connection);
      views.shift();
      return { ...ended, rows: 0 };
    },
  };
}

/**
 * Compares the rows of one view. Stored rows that it lacks are deleted at the end, when it is known how
 * many these are. Ranges may be compared at the same time by several transactions.
 */
export function compareView(
  mapping: Mapping,
  view: MappedView,
  { limit, acceptDeletions = false }: ComparisonOptions,
) {
  const gone: Gone[number][] = [];
  let startedAt: Date | null = null;
  return {
    /** Compares the next rows of a range. */
    async step(connection: Connection, range: ViewRange): Promise<Compared> {
      startedAt ??= await readNow(connection);
      const { after, until } = range;
      const found = await mapRange(connection, mapping, view, { after, until, limit });
      for (const row of found.gone) gone.push(row);
      range.after = found.last ?? after;
      range.isEnd = found.isEnd;
      return { ...found, rows: found.selected };
    },

    /** Ends a comparison whose ranges have ended. */
    async end(connection: Connection): Promise<Mapped> {
      const rows = await stillStored(connection, view, gone);
      const allowed = acceptDeletions
        ? rows
        : await guardDeletions(connection, view, rows, startedAt);
      // Before the rows are mapped: customers may be held then, because of their purchases.
      await releaseHeld(connection, view, held(rows, allowed));
      const keys = [...allowed.map(({ key }) => key), ...(await failedKeys(connection, view))];
      return mapKeys(connection, mapping, { [view]: keys }, { acceptDeletions, since: startedAt });
    },
  };
}

/** Another process may have deleted some since they were found, as `apply --accept-deletions` does. */
async function stillStored(connection: Connection, view: MappedView, gone: Gone): Promise<Gone> {
  if (gone.length === 0) return [];
  const { rows } = await connection.query<{ id: string }>(
    `select id::text as id from ${storedTables[view]} where id = any ($1::bigint[])`,
    [gone.map(({ id }) => id)],
  );
  const ids = new Set(rows.map(({ id }) => id));
  return gone.filter(({ id }) => ids.has(id));
}

async function readNow(connection: Connection): Promise<Date> {
  const { rows } = await connection.query<{ now: Date }>('select now() as now');
  return (rows[0] as { now: Date }).now;
}

/** The organizations whose deletions are held. */
function held(all: Gone, allowed: Gone): string[] {
  const released = new Set(allowed.map(({ organization }) => organization));
  return [...new Set(all.map(({ organization }) => organization))].filter(
    (organization) => !released.has(organization),
  );
}

/** Forgets held deletions of other organizations: their rows are back, or deleted. */
async function releaseHeld(
  connection: Connection,
  view: MappedView,
  organizations: readonly string[],
): Promise<void> {
  await connection.query(
    'delete from mapping_held_deletions where view = $1 and organization_id <> all ($2::bigint[])',
    [view, organizations],
  );
}

/** Rows that fail alone are not found in ranges: their errors may have another cause by now. */
async function failedKeys(connection: Connection, view: MappedView): Promise<string[]> {
  const { rows } = await connection.query<{ key: string }>(
    'select external_id as key from mapping_failures where view = $1 order by failed_at limit 10000',
    [view],
  );
  return rows.map(({ key }) => key);
}
