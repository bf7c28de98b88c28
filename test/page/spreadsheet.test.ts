import { expect, it } from 'vitest';
import { spreadsheetOf } from '../../src/page/browser/dashboard/spreadsheet.ts';

async function convert(chunks: readonly string[], timeZone: string, interval?: string) {
  const converted = new Blob([...chunks])
    .stream()
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(pieces())
    .pipeThrough(spreadsheetOf(timeZone, interval));
  let text = '';
  for await (const chunk of converted) text += chunk;
  return text;
}

/** The same text in chunks of three characters. */
const pieces = () =>
  new TransformStream<string, string>({
    transform(chunk, controller) {
      for (const piece of chunk.match(/[\s\S]{1,3}/g) ?? []) controller.enqueue(piece);
    },
  });

it('has the times of a time zone, and other columns unchanged', async () => {
  const csv = [
    'id,purchase_value,created_at,coupons,discount\r\n',
    'pur_1,90071992547409.93,2026-01-10T02:59:59.999999Z,"[{""code"":""A,B\r\n""}]",\r\n',
    '"",0.05,2026-01-10T03:00:00.000000Z,,-1.20\r\n',
  ];
  expect(await convert(csv, 'America/Sao_Paulo')).toBe(
    [
      'id,purchase_value,created_at (America/Sao_Paulo),coupons,discount\r\n',
      'pur_1,90071992547409.93,2026-01-09 23:59:59,"[{""code"":""A,B\r\n""}]",\r\n',
      '"",0.05,2026-01-10 00:00:00,,-1.20\r\n',
    ].join(''),
  );
});

it('has the days of periods, and the times of hours', async () => {
  const csv = ['starts_at,key,revenue\r\n', '2026-07-01T22:00:00.000000Z,,0.00\r\n'];
  const header = 'starts_at (Europe/Berlin),key,revenue\r\n';
  expect(await convert(csv, 'Europe/Berlin', 'day')).toBe(`${header}2026-07-02,,0.00\r\n`);
  expect(await convert(csv, 'Europe/Berlin', 'hour')).toBe(
    `${header}2026-07-02 00:00:00,,0.00\r\n`,
  );
});

it('has the days of the periods of reports and cohorts', async () => {
  const csv = [
    'cohort,month,hour\r\n',
    `${Array(3).fill('2026-06-30T22:00:00.000000Z').join()}\r\n`,
  ];
  expect(await convert(csv, 'Europe/Berlin')).toBe(
    [
      'cohort (Europe/Berlin),month (Europe/Berlin),hour (Europe/Berlin)\r\n',
      '2026-07-01,2026-07-01,2026-07-01 00:00:00\r\n',
    ].join(''),
  );
});
