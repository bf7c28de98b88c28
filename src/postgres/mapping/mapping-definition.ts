import { OperatorError } from '../../process/operator-error.ts';
import type { Connection, Database } from '../connection/pool.ts';

/** The views that a user creates over the shop's own tables. */
export const mappedViews = ['mapped_customers', 'mapped_purchases'] as const;
export type MappedView = (typeof mappedViews)[number];

/** The table of the numbers of a view's rows: a mapping writes no other rows of the service's tables. */
export const numberTables: Readonly<Record<MappedView, string>> = {
  mapped_customers: 'mapped_customer_numbers',
  mapped_purchases: 'mapped_purchase_numbers',
};
/** The tables of the service that the views are mapped to. */
export const storedTables: Readonly<Record<MappedView, string>> = {
  mapped_customers: 'customers',
  mapped_purchases: 'purchases',
};

export type MappingSource = {
  readonly view: MappedView;
  /** The name of a table, as the user has written it. */
  readonly source: string;
  /** An expression over a row of the table, or a query, that gives external ids. */
  readonly key: string;
};

/** Types by the name of the column, as Postgres writes them; of a domain, its base type. */
export type ViewColumns = ReadonlyMap<string, string>;

export type MappingDefinition = {
  /** Null if the view does not exist. */
  readonly views: Readonly<Record<MappedView, ViewColumns | null>>;
  readonly sources: readonly MappingSource[];
};

/** A definition with both views, whose columns `check` accepts. */
export type Mapping = {
  readonly views: Readonly<Record<MappedView, ViewColumns>>;
  readonly sources: readonly MappingSource[];
};

export async function readDefinition(
  connection: Database | Connection,
): Promise<MappingDefinition> {
  const columnsOf = async (view: MappedView): Promise<ViewColumns | null> => {
    const { rows } = await connection.query<{ name: string; type: string }>(
      `select attname as name, format_type(coalesce(nullif(typbasetype, 0), pg_type.oid), -1) as type
       from pg_attribute join pg_type on pg_type.oid = atttypid
       where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`,
      [view],
    );
    return rows.length === 0 ? null : new Map(rows.map(({ name, type }) => [name, type]));
  };
  const views = {
    mapped_customers: await columnsOf('mapped_customers'),
    mapped_purchases: await columnsOf('mapped_purchases'),
  };
  const { rows: sources } = await connection.query<MappingSource>(
    'select view, source, key from mapping_sources order by view, source, key',
  );
  return { views, sources };
}

/** Rejects with OperatorError if a view is missing. */
export async function readMapping(connection: Database | Connection): Promise<Mapping> {
  const { views, sources } = await readDefinition(connection);
  const { mapped_customers, mapped_purchases } = views;
  if (mapped_customers === null || mapped_purchases === null) {
    throw new OperatorError(
      `The view ${mapped_customers === null ? 'mapped_customers' : 'mapped_purchases'} does not exist.`,
    );
  }
  return { views: { mapped_customers, mapped_purchases }, sources };
}

/** The type of a view's external ids. */
export const keyTypeOf = ({ views }: Mapping, view: MappedView): string =>
  views[view].get('external_id') as string;
