import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type PurchaseColumnKind, purchaseColumns } from '../../domain/purchase.ts';
import { packageFile } from '../../process/package-files.ts';

/** DDL of the functions and triggers that log changes of purchases; idempotent. */
export const captureSql = readFileSync(packageFile('src/postgres/capture/capture.sql'), 'utf8');

/** Catalog data of the table purchases and its triggers. */
export type CaptureFacts = {
  /** OID and file node, which change if the table is replaced or rewritten. */
  readonly table: string;
  readonly kind: string;
  readonly persistence: string;
  /** Whether the table has a parent or children. */
  readonly inherits: boolean;
  readonly columns: readonly {
    readonly name: string;
    readonly type: string;
    /** Another column of this name has another number, which Postgres never assigns again. */
    readonly number: number;
    /** MD5 of the expression of a generated column. */
    readonly expression: string | null;
  }[];
  readonly triggers: readonly {
    readonly name: string;
    readonly calls: string;
    readonly enabled: string;
    readonly type: number;
    readonly is_conditional: boolean;
    readonly body: string;
    readonly is_definer: boolean;
    readonly writes_to_log: boolean;
    /** Changes with each ALTER of trigger or function, even if a later one reverts it. */
    readonly version: string;
    /** Whether an open transaction may have called the function before its last change. */
    readonly is_unsettled: boolean;
  }[];
} | null;

const names = purchaseColumns.map(({ name }) => `'${name}'`).join(', ');

/**
 * The facts as a scalar SQL expression (json), consistent with the statement's snapshot; null if
 * the search path has no table purchases. Each change of a trigger or a function changes the xmin
 * of its row. A change of a trigger waits for open writers, unlike a change of a function.
 */
export const captureFacts = `(
  select json_build_object(
    'table', purchases.oid || '/' || purchases.relfilenode,
    'kind', purchases.relkind,
    'persistence', purchases.relpersistence,
    'inherits', exists (select from pg_inherits where purchases.oid in (inhparent, inhrelid)),
    'columns', (
      select json_agg(json_build_object(
        'name', attname,
        'type', format_type(coalesce(nullif(typbasetype, 0), pg_type.oid), null),
        'number', attnum,
        'expression', (
          select md5(adbin::text) from pg_attrdef
          where adrelid = attrelid and adnum = attnum and attgenerated <> '')) order by attnum)
      from pg_attribute join pg_type on pg_type.oid = atttypid
      where attrelid = purchases.oid and attname in (${names})),
    'triggers', (
      select coalesce(json_agg(json_build_object(
        'name', tgname,
        'calls', proname,
        'enabled', tgenabled,
        'type', tgtype,
        'is_conditional', tgqual is not null or array_length(tgattr::int2[], 1) > 0,
        'body', md5(prosrc),
        'is_definer', prosecdef,
        'writes_to_log', (
          select proconfig = array['search_path=' || quote_ident(nspname) || ', pg_temp']
          from pg_class as log join pg_namespace on pg_namespace.oid = log.relnamespace
          where log.oid = to_regclass('purchase_changes')),
        'version', pg_trigger.oid || '/' || pg_trigger.xmin || '/' || pg_proc.oid || '/' || pg_proc.xmin,
        'is_unsettled', age(pg_proc.xmin) < age(pg_trigger.xmin)
          -- Of a frozen row, the age of 32 bits may be negative.
          and age(pg_proc.xmin) between 0 and pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            - pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
        order by tgname), '[]')
      from pg_trigger join pg_proc on pg_proc.oid = tgfoid
      where tgrelid = purchases.oid
        and (tgname like 'log\\_%\\_purchases' or tgname = 'purchases_without_parent')))
  from pg_class as purchases
  where purchases.oid = to_regclass('purchases'))`;

/**
 * Changes whenever purchases may have changed without a log entry. A new type is not such a change:
 * Postgres writes a new file, unless all stored bytes stay the same.
 */
export function captureFingerprint(facts: CaptureFacts): string {
  if (facts === null) return 'none';
  const { table, triggers, ...rest } = facts;
  const columns = facts.columns.map(({ type: _, ...column }) => column);
  const definitions = triggers.map(({ is_unsettled: _, ...definition }) => definition);
  const digest = (value: unknown) =>
    createHash('md5').update(JSON.stringify(value)).digest('hex').slice(0, 16);
  return `${table}/${digest({ ...rest, columns })} ${digest(definitions)}`;
}

/** Bits of pg_trigger.tgtype. */
const [row, onInsert, onDelete, onUpdate] = [1, 4, 8, 16] as const;

/** `enabled` is O for origin, R for replica, D for disabled. */
const expectedTriggers = [
  ...[
    { name: 'log_deleted_purchases', type: onDelete, enabled: 'O' },
    { name: 'log_inserted_purchases', type: onInsert, enabled: 'O' },
    { name: 'log_replicated_purchases', type: row | onInsert | onUpdate | onDelete, enabled: 'R' },
    { name: 'log_updated_purchases', type: onUpdate, enabled: 'O' },
  ].map((trigger) => ({ ...trigger, calls: trigger.name })),
  {
    name: 'purchases_without_parent',
    type: row | onDelete,
    enabled: 'D',
    calls: 'log_deleted_purchases',
  },
] as const;

const bodies = new Map(
  [...captureSql.matchAll(/function (\w+)\(\) returns trigger[^$]*\$\$(.*?)\$\$/gs)].map(
    ([, name, body]) => [name, createHash('md5').update(String(body)).digest('hex')],
  ),
);

const expectedTypes: Readonly<Record<PurchaseColumnKind, readonly string[]>> = {
  purchase_id: ['bigint'],
  customer_id: ['bigint'],
  cents: ['bigint'],
  instant: ['timestamp with time zone'],
  text: ['text', 'character varying'],
  label: ['text', 'character varying'],
  coupons: ['jsonb'],
};

/** The reason why changes of purchases are not logged, and advice. */
export type CaptureProblem = {
  readonly message: string;
  readonly advice: string;
  /** Whether `captureSql` repairs the problem. */
  readonly isRestorable: boolean;
};

/** Null if every change of a purchase is logged. */
export function captureProblem(facts: CaptureFacts): CaptureProblem | null {
  return tableProblem(facts) ?? triggerProblem(facts);
}

function tableProblem(facts: CaptureFacts): CaptureProblem | null {
  const problem = (message: string, advice: string) => ({ message, advice, isRestorable: false });
  if (facts === null) {
    return problem(
      'There is no table purchases in the search path.',
      'Check DATABASE_URL and search_path, or run `npx crm-data-service migrate`.',
    );
  }
  if (facts.kind !== 'r') {
    return problem(
      'purchases is not an ordinary table. Its changes cannot be captured.',
      'Keep all purchases in one ordinary table.',
    );
  }
  if (facts.inherits) {
    return problem(
      'The table purchases has a parent or children. Writes through them are not captured.',
      'Keep all purchases in one ordinary table.',
    );
  }
  if (facts.persistence !== 'p') {
    return problem(
      'The table purchases is unlogged. A crash of Postgres would empty it.',
      'Run `alter table purchases set logged`.',
    );
  }
  for (const { name, kind } of purchaseColumns) {
    const type = facts.columns.find((column) => column.name === name)?.type;
    const expected = expectedTypes[kind];
    if (type !== undefined && expected.includes(type)) continue;
    return problem(
      `The column purchases.${name} is ${type ?? 'missing'} and should be ${expected[0]}.`,
      'Change it back.',
    );
  }
  return null;
}

function triggerProblem(facts: CaptureFacts): CaptureProblem | null {
  for (const expected of expectedTriggers) {
    const found = facts?.triggers.find(({ name }) => name === expected.name);
    const fault = triggerFault(expected, found);
    if (fault === null) continue;
    return {
      message: `Changes are not captured: the trigger ${expected.name} on purchases ${fault}.`,
      advice: 'Run `npx crm-data-service migrate`, which restores it. Then all files are rebuilt.',
      isRestorable: true,
    };
  }
  // Checked last: the repair of other faults waits for open writers.
  const unsettled = facts?.triggers.find(
    (trigger) => trigger.is_unsettled && expectedTriggers.some(({ name }) => name === trigger.name),
  );
  if (unsettled === undefined) return null;
  return {
    message: `A transaction is open that may have called ${unsettled.name}() before it was changed.`,
    advice: 'Nothing is published before it ends. Then all files are rebuilt.',
    isRestorable: false,
  };
}

function triggerFault(
  { calls, type, enabled }: (typeof expectedTriggers)[number],
  found: NonNullable<CaptureFacts>['triggers'][number] | undefined,
): string | null {
  if (found === undefined) return 'is missing';
  if (found.enabled !== enabled) {
    if (found.enabled === 'D') return 'is disabled';
    return `has tgenabled ${found.enabled} and should have ${enabled}`;
  }
  if (found.type !== type || found.is_conditional) return 'has another definition';
  const isFunctionIntact = found.body === bodies.get(calls) && found.is_definer;
  if (!isFunctionIntact || !found.writes_to_log) return 'calls a function with another definition';
  return null;
}
