import { isPeriodDimension } from '../../../domain/purchase-report.ts';
import { localIso } from '../view/calendar.ts';

/** The API's CSV for spreadsheets, with times, or days of longer periods, of a time zone. */
export function spreadsheetOf(
  timeZone: string,
  interval?: string,
): TransformStream<string, string> {
  let convert: ((line: string) => string) | null = null;
  let rest = '';
  const read = (line: string) => {
    if (convert !== null) return convert(line);
    const columns = fieldsOf(line).map((name) => columnOf(name, timeZone, interval));
    convert = (row) =>
      fieldsOf(row)
        .map((field, index) => columns[index]?.convert(field) ?? field)
        .join();
    return columns.map(({ name }) => name).join();
  };
  return new TransformStream({
    transform(chunk, controller) {
      const { lines, rest: unfinished } = linesOf(rest + chunk);
      rest = unfinished;
      controller.enqueue(lines.map((line) => `${read(line)}\r\n`).join(''));
    },
  });
}

/** Complete lines: CRLF within quotes belongs to a field. */
function linesOf(text: string): { readonly lines: readonly string[]; readonly rest: string } {
  const lines: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (const { 0: mark, index } of text.matchAll(/"|\r\n/g)) {
    if (mark === '"') isQuoted = !isQuoted;
    else if (!isQuoted) {
      lines.push(text.slice(start, index));
      start = index + mark.length;
    }
  }
  return { lines, rest: text.slice(start) };
}

const fieldsOf = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)("(?:[^"]|"")*"|[^,]*)/g)].map(([, field = '']) => field);

/** Columns of reports and cohorts with the first instant of a period. */
const isPeriod = (name: string): boolean => name === 'cohort' || isPeriodDimension(name);

type Column = { readonly name: string; convert(field: string): string };

function columnOf(name: string, timeZone: string, interval: string | undefined): Column {
  if (name.endsWith('_at') || isPeriod(name)) {
    const isDay = isPeriod(name) ? name !== 'hour' : name === 'starts_at' && interval !== 'hour';
    const length = isDay ? 10 : 19;
    const convert = (field: string) =>
      field === '' ? '' : localIso(Date.parse(field), timeZone).slice(0, length);
    return { name: `${name} (${timeZone})`, convert };
  }
  return { name, convert: (field) => field };
}
