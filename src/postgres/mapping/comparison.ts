import type { Connection } from '../connection/pool.ts';
import { guardDeletions } from './deletions.ts';
import { type Mapped, mapKeys, mapRange, nothingMapped } from './map-rows.ts';
import type { Gone } from './map-statement.ts';
import { type MappedView, type Mapping, mappedViews } from './mapping-definition.ts';

export type Comparison = {
  /** The next step of the comparison, in a mapping transaction. Null when all rows are compared. */
  step(connection: Connection): Promise<(Mapped & { readonly rows: number }) | null>;
};

export type ComparisonOptions = {
  /** Rows of one step. */
  readonly limit: number;
  readonly acceptDeletions?: boolean;
};

/**
 * Compares all rows of the views with the stored ones in the order of external ids, and corrects what
 * differs: the first copy as well. Stored rows that a view lacks are deleted at its end, when it is
 * known how many these are. After a failure, the same step can be repeated.
 */
export function createComparison(
  mapping: Mapping,
  { limit, acceptDeletions = false }: ComparisonOptions,
): Comparison {
  const views = [...mappedViews];
  let after: string | null = null;
  let gone: Gone[number][] = [];
  let startedAt: Date | null = null;

  return {
    async step(connection) {
      const [view] = views;
      if (view === undefined) return null;
      startedAt ??= await readNow(connection);
      const found = await mapRange(connection, mapping, view, { after, limit });
      const mapped = nothingMapped();
      add(mapped, found);
      if (!found.isEnd) {
        after = found.last;
        for (const row of found.gone) gone.push(row);
        return { ...mapped, rows: found.selected };
      }
      const all = [...gone, ...found.gone];
      const allowed = acceptDeletions
        ? all
        : await guardDeletions(connection, view, all, startedAt);
      await releaseHeld(connection, view, held(all, allowed));
      const keys = [...allowed.map(({ key }) => key), ...(await failedKeys(connection, view))];
      add(mapped, await mapKeys(connection, mapping, { [view]: keys }, true));
      views.shift();
      after = null;
      gone = [];
      return { ...mapped, rows: found.selected };
    },
  };
}

async function readNow(connection: Connection): Promise<Date> {
  const { rows } = await connection.query<{ now: Date }>('select now() as now');
  return (rows[0] as { now: Date }).now;
}

function add(total: Mapped, { written, deleted, refused, failing }: Mapped): void {
  total.written += written;
  total.deleted += deleted;
  total.refused += refused;
  total.failing += failing;
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
