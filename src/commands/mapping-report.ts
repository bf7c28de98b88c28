import { minorDigits } from '../domain/currency.ts';
import { decimalOf } from '../domain/decimal.ts';
import { paymentStatuses, platforms } from '../domain/purchase.ts';
import type { CheckedView, MappingCheck } from '../postgres/mapping/check/check.ts';
import type { Finding } from '../postgres/mapping/check/finding.ts';
import type { CreatedRange, LabelCount } from '../postgres/mapping/check/row-summary.ts';
import type { OrganizationTotals } from '../postgres/mapping/organization-totals.ts';
import { formatTable } from './plain-table.ts';

const width = 100;

/** The text of `check`, at most 100 columns wide. */
export function formatCheck({ findings, views, totals }: Omit<MappingCheck, 'mapping'>): string {
  const purchases = views.find(({ view }) => view === 'mapped_purchases')?.rows ?? null;
  const sections = [
    ...views.map(formatView),
    ...formatSources(views),
    ...(purchases === null || purchases.labels.length === 0
      ? []
      : [formatLabels(purchases.labels)]),
    ...(purchases === null ? [] : [formatGuests(purchases.guests)]),
    ...(totals === null ? [] : [formatTotals(totals)]),
    ...(findings.length === 0 ? [] : [formatFindings(findings)]),
    summarize(findings),
  ];
  return sections.join('\n\n');
}

export const formatFindings = (findings: readonly Finding[]): string =>
  findings
    .map(({ severity, message, advice }) =>
      [...wrap(message, `${severity}: `.padEnd(9), 9), ...wrap(advice, '       → ', 9)].join('\n'),
    )
    .join('\n');

export function summarize(findings: readonly Finding[]): string {
  const count = (severity: Finding['severity']) => {
    const found = findings.filter((finding) => finding.severity === severity).length;
    return found === 0 ? [] : [`${found} ${severity}${found === 1 ? '' : 's'}`];
  };
  const errors = count('error');
  const counts = [...errors, ...count('warning')].join(' and ');
  if (errors.length > 0) {
    return wrap(
      `${counts}. Correct them by the lines above, and run check again. A view is dropped and created again.`,
    ).join('\n');
  }
  return `${counts === '' ? 'Nothing is refused' : counts}. Run \`npx crm-data-service mapping apply\`.`;
}

/** Breaks lines between words. A longer word has its own line. */
function wrap(text: string, first = '', indent = 0): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(/\s+/)) {
    if (!isEmpty && line.length + 1 + word.length > width) {
      lines.push(line);
      line = ' '.repeat(indent);
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}

function formatView({ view, columns, rows }: CheckedView): string {
  const refused = (rows?.refused ?? []).reduce((sum, { rows: count }) => sum + count, 0);
  const state =
    rows === null ? 'rows not read' : `${count(rows.rows)} rows, ${count(refused)} refused`;
  const table = formatTable(
    [
      { head: 'column', width: 40 },
      { head: 'type', width: 40 },
    ],
    columns.map(({ name, type }) => [name, type]),
  );
  return [`${view}: ${state}`, ...(rows?.created ?? []).map(formatCreated), table].join('\n');
}

const formatCreated = ({ zone, first, last }: CreatedRange): string =>
  `created_at from ${first} to ${last}, ${zone}`;

/** How many keys of each source are those of a row. A join that loses rows shows here. */
function formatSources(views: readonly CheckedView[]): string[] {
  const rows = views.flatMap(({ view, rows: summary }) =>
    (summary?.sources ?? []).map(({ source, key, keys, missing }) => [
      view,
      source,
      key.replaceAll(/\s+/g, ' '),
      count(keys),
      count(keys - missing.rows),
      missing.examples.join(', '),
    ]),
  );
  if (rows.length === 0) return [];
  return [
    formatTable(
      [
        { head: 'view', width: 16 },
        { head: 'source', width: 24 },
        { head: 'key', width: 12 },
        { head: 'keys', width: 10, align: 'right' },
        { head: 'in the view', width: 11, align: 'right' },
        { head: 'not in the view', width: 17 },
      ],
      rows,
    ),
  ];
}

function formatLabels(labels: readonly LabelCount[]): string {
  const table = formatTable(
    [
      { head: 'column', width: 15 },
      { head: 'value', width: 30 },
      { head: 'purchases', width: 12, align: 'right' },
      { head: 'in the API', width: 34 },
    ],
    labels.map((label) => [label.column, label.value ?? '(none)', count(label.rows), inApi(label)]),
  );
  const longest = new Map(labels.map(({ column, values }) => [column, values]));
  const more = [...longest].flatMap(([column, values]) => {
    const shown = labels.filter((label) => label.column === column).length;
    return values > shown ? [`${column} has ${count(values - shown)} more values.`] : [];
  });
  return [table, ...more].join('\n');
}

/** How filters of the API find purchases with a label. */
function inApi({ column, value }: LabelCount): string {
  if (value === null) return '';
  const known = (values: readonly string[], filter: string) =>
    values.includes(value) ? `${filter}=${value}` : `no value of the filter ${filter}`;
  switch (column) {
    case 'payment_status':
      return known(paymentStatuses, 'status');
    case 'platform':
      return known(platforms, 'platform');
    case 'currency':
      return `smallest unit ${decimalOf(1, minorDigits(value))}`;
    default:
      return 'no filter';
  }
}

function formatGuests({
  withoutCustomer,
  ofUnknownCustomer,
}: NonNullable<CheckedView['rows']>['guests']): string {
  const guests = withoutCustomer + ofUnknownCustomer;
  if (guests === 0) return 'All purchases have a customer.';
  return wrap(
    `${count(guests)} purchases belong to a customer without a name: ${count(withoutCustomer)} without ` +
      `customer_external_id, ${count(ofUnknownCustomer)} of a customer that mapped_customers lacks.`,
  ).join('\n');
}

export const formatTotals = (totals: readonly OrganizationTotals[]): string =>
  formatTable(
    [
      { head: 'organization', width: 12, align: 'right' },
      { head: 'name', width: 20 },
      { head: 'customers', width: 12, align: 'right' },
      { head: 'purchases', width: 12, align: 'right' },
      { head: 'currency', width: 10 },
      { head: 'sum', width: 22, align: 'right' },
    ],
    totals.flatMap(({ organization, name, customers, currencies }) => {
      const rows = currencies.length === 0 ? [null] : currencies;
      return rows.map((total, index) => [
        ...(index === 0 ? [organization, name, count(customers)] : ['', '', '']),
        count(total?.purchases ?? 0),
        total === null ? '' : (total.currency ?? '(none)'),
        total?.value ?? '',
      ]);
    }),
  );

export const count = (number: number): string => number.toLocaleString('en');
