import { DuckDBInstance, listValue } from '@duckdb/node-api';
import { expect, it } from 'vitest';
import { changedTextPattern, roundedNumberPattern } from '../../../src/domain/spreadsheet-text.ts';
import { quotings } from '../../../src/http/formats/quoting.ts';

/** Texts that Excel, LibreOffice or Google Sheets read as something else, in some language. */
const changedTexts = [
  ...['=1+1', '-5', '+5511987654321', '@a', '\t1', '\n=1', '＝1'],
  ...[
    '007',
    '00',
    '123456789012',
    '7891234567895',
    '1234567890123456',
    '1E5',
    '1e-5',
    '12.5E10',
    '1.',
    '12.50',
    '.5',
    '1,234',
  ],
  ...[
    '1.234.567',
    '1 234',
    '1\u00a0234',
    "1'234,50",
    '5%',
    '5,5 %',
    '(5)',
    '$5',
    'R$ 1.234,50',
    '5 €',
  ],
  ...['3-4', '3/4', '3.4', '2026-01-31', '31/01/2026', '1.2.2003', '2026-01-31 14:05', '1 1/2'],
  ...['10:30', '10:30:05', '10:30 pm', '5 pm', 'MAR1', 'Sept2', 'jan 2026', 'may-26', '5-dez-2026'],
  ...['fev/26', '10 mar', 'january 5, 2026', 'TRUE', 'false', ' 007 '],
];
const keptTexts = [
  ...['', '0', '5', '12345678901', 'a', 'A1', '#1001', 'pur_5Zq7', '10 Downing Street', 'e5'],
  ...['2026-01-31T14:05:09.123456Z', 'summer', 'marketing 5', 'mayor 2026', 'decor-26', 'trueish'],
  ...['123-4567890-1234567', '11 98765-4321', '1.2.3.4.5a', '[{"id":"1"}]', 'black-friday-2026'],
];

it('text that a spreadsheet would change has an apostrophe, and no other text', () => {
  for (const text of changedTexts) {
    expect(quotings.spreadsheet.text(text).replace(/^"/, '').startsWith("'"), text).toBe(true);
  }
  for (const text of keptTexts) {
    expect(quotings.spreadsheet.text(text), text).toBe(quotings.csv.text(text));
  }
});

it.each([
  ['999999999999999', '999999999999999'],
  ['-999999999999999', '-999999999999999'],
  ['1000000000000000', "'1000000000000000"],
  ['-1000000000000000', "'-1000000000000000"],
  ['9999999999999.99', '9999999999999.99'],
  ['99999999999999,99', "'99999999999999,99"],
])('a number of more than 15 digits has one too: %s', (number, expected) => {
  expect(quotings.spreadsheet_number.text(number)).toBe(expected);
});

it('the patterns mean the same in DuckDB', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const marks = ['', ' ', "'", '%', 'e', 'K', '\u212a', 'ſ', 'é', 'É', '\u202f', '.', ',', '\r\n'];
  const texts = [...changedTexts, ...keptTexts].flatMap((text) => [
    ...marks.flatMap((mark) => [text + mark, mark + text]),
    text.toUpperCase(),
    `${text}${text}`,
  ]);
  for (const [pattern, flags] of [
    [changedTextPattern, 'iu'],
    [roundedNumberPattern, ''],
  ] as const) {
    const reader = await connection.runAndReadAll(
      `select regexp_matches(text, '${pattern}', '${flags.replace('u', '') || 'c'}')
       from (select unnest($texts::varchar[]) as text)`,
      { texts: listValue(texts) },
    );
    const matches = new RegExp(pattern, flags);
    expect(reader.getRows().map(([isMatch]) => isMatch)).toEqual(
      texts.map((text) => matches.test(text)),
    );
  }
  connection.closeSync();
  instance.closeSync();
});
