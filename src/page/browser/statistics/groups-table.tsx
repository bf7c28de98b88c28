import type { Report, ReportRow } from '../api/responses.ts';
import { Label } from '../components/label.tsx';
import { Table } from '../components/table.tsx';
import { currencyOf } from '../display/csv.ts';
import { dimensionLabel, groupLabel } from '../display/dimensions.ts';
import { formatChange, formatShare } from '../display/format.ts';
import { areSales, formatMeasure, isMissing, measureLabel } from '../display/measures.ts';
import { texts } from '../language/language.ts';
import { isMoney, type MeasureName, type ViewState } from '../view/view-state.ts';
import { changeBetween, directionOf } from './change.ts';

const columnName = (measure: MeasureName, state: ViewState): string =>
  measure === 'average_ticket_in_cents'
    ? texts.ranking.averageTicket
    : measureLabel(measure, state);

export type GroupsProperties = {
  readonly label: string;
  readonly report: Report;
  /** Its measure is that of changes, shares and of the first column. */
  readonly state: ViewState;
  readonly others: readonly MeasureName[];
  /** What a click on a row does; null if nothing. */
  onSelect(row: ReportRow): (() => void) | null;
};

/** The rows of a report, with their changes and shares. */
export function GroupsTable({ label, report, state, others, onSelect }: GroupsProperties) {
  const { measure } = state;
  const summable = summableOf(measure);
  const shown = {
    ...{ report, state, measure, others: others.filter((name) => name !== measure) },
    largest: Math.max(...report.rows.map((row) => Number(row[summable]))),
  };
  return (
    <Table label={label} columns={columnsOf(shown)}>
      {report.rows.map((row) => (
        <Row
          key={JSON.stringify(report.group_by.map((name) => row[name]))}
          row={row}
          select={onSelect(row)}
          {...shown}
        />
      ))}
    </Table>
  );
}

type Shown = Pick<GroupsProperties, 'report' | 'state' | 'others'> & {
  readonly measure: MeasureName;
  /** The value with the longest bar. */
  readonly largest: number;
};

/** The measure of bars and shares: averages have no share. */
const summableOf = (measure: MeasureName): Exclude<MeasureName, 'average_ticket_in_cents'> =>
  measure === 'average_ticket_in_cents' ? 'revenue_in_cents' : measure;

function shareName(measure: MeasureName, state: ViewState): string {
  const name = summableOf(measure);
  const { value, ...shares } = texts.ranking.shares;
  return name === 'revenue_in_cents' && !areSales(state) ? value : shares[name];
}

/** Periods have no change: no day is in both times. */
const hasChange = ({ group_by, compared_period }: Report): boolean =>
  compared_period !== null && !group_by.includes('day');

/** Amounts of different currencies have no common scale. */
const hasScale = ({ mixed_currencies: isMixed }: Report, measure: MeasureName): boolean =>
  !isMixed || !isMoney(measure);

/** The share of a row in the total. Null if it has none. */
function shareOf(report: Report, row: ReportRow, measure: MeasureName): number | null {
  const [value, total] = [Number(row[measure]), Number(report.totals[measure])];
  return hasScale(report, measure) && total > 0 ? value / total : null;
}

function columnsOf({ report, state, measure, others }: Omit<Shown, 'largest'>) {
  const change = texts.ranking.changeOf(measureLabel(measure, state));
  const number = (name: string, title?: string) => ({
    name,
    isNumber: true,
    ...(title === undefined ? {} : { title }),
  });
  return [
    { name: report.group_by.map(dimensionLabel).join(', ') },
    number(columnName(measure, state)),
    ...(hasChange(report) ? [number(texts.ranking.change, change)] : []),
    number(shareName(measure, state)),
    ...others.map((name) => number(columnName(name, state))),
  ];
}

type RowProperties = Shown & { readonly row: ReportRow; readonly select: (() => void) | null };

function Row({ report, state, measure, others, largest, row, select }: RowProperties) {
  const currency = currencyOf(report, row);
  const summable = summableOf(measure);
  const value = Number(row[summable]);
  const width = largest > 0 ? Math.max(0, (100 * value) / largest) : 0;
  const share = shareOf(report, row, summable);
  const details = [
    [shareName(measure, state), share === null ? '–' : formatShare(share)] as const,
    ...others.map((name) => [columnName(name, state), formatMeasure(name, row, currency)] as const),
  ];
  return (
    <tr class={select === null ? undefined : 'selectable'}>
      <th scope="row">
        <Name report={report} row={row} select={select} />
        {hasScale(report, summable) && <span class="bar" style={{ width: `${width}%` }} />}
      </th>
      <td class="number">{formatMeasure(measure, row, currency)}</td>
      {hasChange(report) && <Change change={changeOf(report, row, measure)} />}
      {/* Narrow windows show these below the others, with the names of the columns. */}
      {details.map(([name, text]) => (
        <td key={name} class="number" data-name={name}>
          {text}
        </td>
      ))}
    </tr>
  );
}

function Change({ change }: { readonly change: number | string }) {
  if (typeof change === 'string') return <td class="number">{change}</td>;
  return <td class={`number ${directionOf(change)}`}>{formatChange(change)}</td>;
}

/** Text if there is nothing to compare with. */
function changeOf(report: Report, row: ReportRow, measure: MeasureName): number | string {
  const { compared } = row;
  if (compared === undefined) return '–';
  if (!hasScale(report, measure) && !report.group_by.includes('currency')) return '–';
  if (BigInt(compared.purchase_count) === 0n) return texts.ranking.new;
  if (isMissing(measure, row)) return '–';
  return changeBetween(BigInt(row[measure]), BigInt(compared[measure])) ?? '–';
}

type NameProperties = Pick<RowProperties, 'report' | 'row' | 'select'>;

/** The values of the dimensions. The button covers its row (tables.css). */
function Name({ report, row, select }: NameProperties) {
  const labels = report.group_by.map((name) => groupLabel(name, row[name], report.timezone));
  const text = labels.map((label, index) =>
    index === 0 ? (
      <Label text={label} />
    ) : (
      <span class="line muted">
        <Label text={label} />
      </span>
    ),
  );
  if (select === null) return <span>{text}</span>;
  return (
    <button
      type="button"
      class="link"
      title={texts.ranking.showOnly(labels.join(', '))}
      onClick={select}
    >
      {text}
    </button>
  );
}
