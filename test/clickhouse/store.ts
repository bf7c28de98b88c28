import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import sql, { raw } from 'sql-template-tag';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import { type ClickHouse, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import { createTables } from '../../src/engines/clickhouse/schema.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { purchaseSelectList } from '../../src/postgres/purchase-select-list.ts';

export async function startClickHouse(directory: string) {
  const child = fork(fileURLToPath(new URL('server.ts', import.meta.url)), [directory], {
    execArgv: ['--import', 'tsx'],
  });
  const [port] = await once(child, 'message');
  const clickhouse = openClickHouse({
    url: `http://127.0.0.1:${port}`,
    database: 'default',
    timeoutMs: 30_000,
  });
  for (const table of createTables(null)) await clickhouse.run(raw(table));
  return {
    clickhouse,
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await clickhouse.close();
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

const columns = purchaseColumns.map(({ name }) => name).join(', ');
const literal = (value: unknown): string =>
  value === null
    ? 'null'
    : typeof value === 'bigint'
      ? String(value)
      : `'${String(value).replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

/** Publishes the purchases of Postgres: first as a load, then as changes of all of them. */
export async function publishTo(
  clickhouse: ClickHouse,
  database: Database,
  organizationId: bigint,
): Promise<void> {
  const { rows } = await database.query<{ as_of: bigint }>({
    text: `select ${purchaseSelectList} from purchases where organization_id = $1`,
    values: [String(organizationId)],
    rowMode: 'array',
  } as never);
  const values = (rows as unknown as unknown[][]).map((row) => row.map(literal).join(', '));
  const [newest] = await clickhouse.query(
    sql`select number, load_id, batch from generation where organization_id = ${organizationId} order by number desc limit 1`,
  );
  const number = newest === undefined ? 1n : BigInt(newest[0] as string) + 1n;
  const batch = newest === undefined ? 0n : BigInt(newest[2] as string) + 1n;
  if (newest === undefined) {
    if (values.length > 0) {
      await clickhouse.run(
        raw(
          `insert into purchase (organization_id, load_id, ${columns}) values ${values.map((row) => `(${organizationId}, 1, ${row})`).join(',')}`,
        ),
      );
    }
  } else {
    await clickhouse.run(
      raw(`insert into purchase_change (organization_id, load_id, batch, sign, ${columns})
        select ${organizationId}, 1, ${batch}, -1, ${columns} from (
          select ${columns} from purchase where organization_id = ${organizationId} and id not in (select id from purchase_change where organization_id = ${organizationId})
          union all
          select ${columns} from purchase_change where organization_id = ${organizationId} and sign > 0 and (id, batch) in (select id, max(batch) from purchase_change where organization_id = ${organizationId} group by id)
        )`),
    );
    if (values.length > 0) {
      await clickhouse.run(
        raw(
          `insert into purchase_change (organization_id, load_id, batch, sign, ${columns}) values ${values.map((row) => `(${organizationId}, 1, ${batch}, 1, ${row})`).join(',')}`,
        ),
      );
    }
  }
  await clickhouse.run(
    raw(
      `insert into generation values (${organizationId}, ${number}, 1, ${batch}, ${BigInt(Date.now()) * 1000n}, 's')`,
    ),
  );
}
