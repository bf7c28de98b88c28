import type { Database } from '../../../src/postgres/connection/pool.ts';
import type { Asking } from './ask.ts';
import { assignmentsOf, conditionOf, type Step } from './history.ts';
import { type Burst, customerCount, purchasesOf } from './shop.ts';

/** A step that changes rows in Postgres. */
export type RowStep = Extract<Step, { kind: 'insert' | 'update' | 'delete' }>;

export async function addCustomers(database: Database, organization: bigint): Promise<bigint[]> {
  const { rows } = await database.query<{ id: bigint }>(
    `insert into customers (organization_id) select $1 from generate_series(1, $2::integer)
     returning id`,
    [organization, customerCount],
  );
  return rows.map(({ id }) => id);
}

export function changeRows(asking: Asking, step: RowStep): Promise<void> {
  return step.kind === 'insert' ? addBurst(asking, step.burst) : changeSelected(asking, step);
}

export async function addBurst(
  { database, organization, customers, origins, instants, note }: Asking,
  burst: Burst,
): Promise<void> {
  const purchases = purchasesOf(burst, origins).map(({ customer, ...values }) => ({
    ...values,
    organization_id: String(organization),
    customer_id: String(customers[customer]),
  }));
  for (const { created_at: createdAt } of purchases) instants.push(createdAt);
  const columns = Object.keys(purchases[0] ?? {}).join(', ');
  const statement = `insert into purchases (${columns}) select ${columns} from json_populate_recordset(null::purchases, $1)`;
  note(`insert into purchases, ${purchases.length} rows:\n  ${shownRows(purchases).join('\n  ')}`);
  await database.query(statement, [JSON.stringify(purchases)]);
}

const maxShown = 8;

/** The first rows, without columns that are null. */
function shownRows(rows: readonly object[]): string[] {
  const shown = rows
    .slice(0, maxShown)
    .map((row) => JSON.stringify(row, (_name, value) => value ?? undefined));
  return rows.length > maxShown ? [...shown, `and ${rows.length - maxShown} more`] : shown;
}

async function changeSelected(
  { database, organization, customers, pageEnds, note }: Asking,
  step: Exclude<RowStep, { kind: 'insert' }>,
): Promise<void> {
  const ends = pageEnds.map(({ id }) => id);
  const condition = conditionOf(step.of, customers, ends);
  const where = `where organization_id = $1 and ${condition.text}`;
  const values = [organization, ...condition.values];
  const assignments =
    step.kind === 'update' ? assignmentsOf(step.change, customers, values.length) : null;
  const text =
    assignments === null
      ? `delete from purchases ${where}`
      : `update purchases set ${assignments.text} ${where}`;
  const all = [...values, ...(assignments?.values ?? [])];
  const { rowCount } = await database.query(text, all);
  note(`${text.replace(/\s+/g, ' ')} -- ${all.join(', ')}: ${rowCount} rows`);
}
