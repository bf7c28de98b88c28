import pg from 'pg';
import { currencyCode } from '../../../domain/currency.ts';
import {
  keyTypeOf,
  type MappedView,
  type Mapping,
  type ViewColumns,
} from '../mapping-definition.ts';
import { error, type Finding, warning } from './finding.ts';
import type { CountedKeys, RefusedRows, RowSummary } from './row-summary.ts';
import { whereSource } from './sources.ts';

const { escapeLiteral } = pg;

/** What is wrong with the rows of a view. */
export function checkRows(mapping: Mapping, view: MappedView, summary: RowSummary): Finding[] {
  const { nullKeys, duplicates, changedByText, refused } = summary;
  const findings: Finding[] = [];
  if (nullKeys > 0) {
    const key = mapping.sources.find((source) => source.view === view)?.key ?? 'id';
    findings.push(
      error(
        view,
        `${view}.external_id is null in ${rowsOf(nullKeys)}. It must identify a row.`,
        `where ${key} is not null`,
      ),
    );
  }
  if (duplicates.rows > 0) {
    findings.push(
      error(
        view,
        `${view}.external_id is not unique: ${values(duplicates.rows)} ${duplicates.rows === 1 ? 'has' : 'have'} ` +
          `several rows${suchAs(duplicates)}. A join may multiply the rows.`,
        'Replace the join by a subquery in the select list, such as ' +
          '(select sum(amount) from order_lines where order_id = orders.id) as purchase_value',
      ),
    );
  }
  if (changedByText.rows > 0) {
    findings.push(
      error(
        view,
        `${view}.external_id has the type ${keyTypeOf(mapping, view)}, and ${values(changedByText.rows)} ` +
          `${changedByText.rows === 1 ? 'differs' : 'differ'} after a cast to text and back${suchAs(changedByText)}.`,
        'external_id::text as external_id',
      ),
    );
  }
  for (const refusal of refused) findings.push(refusedRows(mapping, view, refusal));
  return [
    ...findings,
    ...checkPaid(view, summary),
    ...checkCurrencies(view, summary),
    ...checkSourceKeys(mapping, view, summary),
  ];
}

/** Amounts of an unknown currency would have two decimals. */
function checkCurrencies(view: MappedView, { labels }: RowSummary): Finding[] {
  const currencies = labels.filter(({ column }) => column === 'currency');
  const missing = currencies.find(({ value }) => value === null);
  const others = currencies.flatMap(({ value, rows }) =>
    value === null || currencyCode(value) === value ? [] : [{ value, rows }],
  );
  const isCode = ({ value }: { value: string }) => currencyCode(value) !== null;
  const refused = (found: typeof others, lineFor: (value: string) => string): Finding[] => {
    const [first] = found;
    if (first === undefined) return [];
    const named = found.slice(0, 3).map(({ value }) => `'${value}'`);
    const rows = found.reduce((sum, each) => sum + each.rows, 0);
    const message = `mapped_purchases.currency is no code of ISO 4217 in ${rowsOf(rows)}, such as ${named.join(', ')}.`;
    return [error(view, message, lineFor(first.value))];
  };
  return [
    ...refused(others.filter(isCode), () => 'upper(currency) as currency'),
    ...refused(
      others.filter((each) => !isCode(each)),
      (value) =>
        `case currency when ${escapeLiteral(value)} then 'BRL' else currency end as currency`,
    ),
    ...(missing === undefined
      ? []
      : [
          warning(
            view,
            `mapped_purchases.currency is null in ${rowsOf(missing.rows)}. Their amounts are taken as those of a ` +
              'currency with two decimals.',
            `coalesce(currency, 'BRL') as currency`,
          ),
        ]),
  ];
}

/** Without a key that the view has, no change of the source would be noticed. */
function checkSourceKeys(mapping: Mapping, view: MappedView, { rows, sources }: RowSummary) {
  return sources.flatMap(({ source, key, keys, missing }) => {
    if (rows === 0 || keys === 0 || missing.rows < keys) return [];
    const row = mapping.sources.find((each) => each.view === view && each.key === key);
    return warning(
      view,
      `The key ${key} of ${source} gives no external_id of ${view}.`,
      `update mapping_sources set key = '…' ${whereSource(row ?? { view, source, key })}`,
    );
  });
}

/** A view without paid purchases would leave all totals of customers at zero. */
function checkPaid(view: MappedView, { labels, totals }: RowSummary): Finding[] {
  if (view !== 'mapped_purchases' || totals.length === 0) return [];
  const isPaid = labels.some(
    ({ column, value }) => column === 'payment_status' && value === 'paid',
  );
  if (isPaid) return [];
  return [
    warning(
      view,
      `mapped_purchases.payment_status is 'paid' in no row. Totals of customers count paid purchases only.`,
      `case state when 'done' then 'paid' when 'returned' then 'refunded' end as payment_status`,
    ),
  ];
}

function refusedRows(mapping: Mapping, view: MappedView, refused: RefusedRows): Finding {
  const { column, reason, rows } = refused;
  return warning(
    view,
    `${view}.${column} ${reason} in ${rowsOf(rows)}${suchAs(refused)}. The worker leaves these rows out.`,
    adviceFor(column, reason, mapping.views[view]),
  );
}

function adviceFor(column: string, reason: string, columns: ViewColumns): string {
  if (/is the number of no organization/.test(reason)) {
    return 'npx crm-data-service organizations list   # prints the numbers';
  }
  if (/fraction/.test(reason)) {
    if (/_in_cents$/.test(column)) return `round(${column}) as ${column}`;
    const digits = columns.has('currency')
      ? "case currency when 'JPY' then 0 when 'KWD' then 3 else 2 end"
      : '2';
    return `round(${column}, ${digits}) as ${column}`;
  }
  if (/bytes/.test(reason) && column !== 'coupons') {
    return `left(${column}, 250) as ${column}`;
  }
  if (/no JSON (object|array)/.test(reason)) {
    const kind = /array/.test(reason) ? 'array' : 'object';
    return `case when jsonb_typeof(${column}::jsonb) = '${kind}' then ${column} end as ${column}`;
  }
  return `where ${column} is not null`;
}

export const rowsOf = (count: number): string =>
  `${count.toLocaleString('en')} ${count === 1 ? 'row' : 'rows'}`;
const values = (count: number): string =>
  `${count.toLocaleString('en')} ${count === 1 ? 'value' : 'values'}`;

const suchAs = ({ examples }: CountedKeys): string =>
  examples.length === 0 ? '' : `, such as ${examples.map((key) => `'${key}'`).join(', ')}`;
