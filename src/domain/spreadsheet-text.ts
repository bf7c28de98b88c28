// The patterns below mean the same in JavaScript (flags `iu`) and DuckDB (RE2, option `i`). They have no
// lookahead, which RE2 lacks, and no single quotes.

/** Text that a spreadsheet evaluates as a formula, also with full-width signs or after a line feed. */
const formula = String.raw`[=+\-@\t\r\n＝＋－＠]`;

const noBreakSpaces = '\u00a0\u202f';

/** Also with marks of groups of digits and of decimals, which differ by country. */
const numbers = [
  // Zeros before a number are lost. More than 11 digits are shown as 4.5E+12, and those after the 15th are lost.
  '0[0-9]+',
  '[0-9]{12,}',
  '[0-9]+[.,]',
  '[0-9]*(?:[.,][0-9]+)+',
  String.raw`[0-9]{1,3}(?:[ \x27’${noBreakSpaces}][0-9]{3})+(?:[.,][0-9]+)?`,
  String.raw`(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)e[+\-]?[0-9]+`,
  String.raw`(?:\(|R?\$|[€£¥]) ?[0-9][0-9.,]*\)?`,
  '[0-9][0-9.,]* ?[%€]',
];

/** Of English, Portuguese and Spanish, and abbreviations of German and French. */
const month = [
  'jan(?:uary|eiro)?|ene(?:ro)?|f[eé][bv](?:ruary|ereiro|rero)?|mar(?:ch|ço|zo)?|mär|mrz',
  'apr(?:il)?|a[bv]r(?:il)?|mayo?|maio?|june?|jun[hi]o|july?|jul[hi]o|aug(?:ust)?|ago(?:sto)?|aoû',
  'sept?(?:ember|iembre)?|set(?:embro)?|oct(?:ober|ubre)?|out(?:ubro)?|okt',
  'nov(?:ember|embro|iembre)?|dec(?:ember)?|dez(?:embro)?|dic(?:iembre)?|déc',
].join('|');

const time = '[0-9]{1,4}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?[ap]m?)?';
const dates = [
  String.raw`[0-9]{1,4}[\-/.][0-9]{1,2}(?:[\-/.][0-9]{1,4})?(?: +${time})?`,
  '[0-9]+ [0-9]+/[0-9]+',
  time,
  '[0-9]{1,2} [ap]m?',
  String.raw`[0-9]{1,4}[\-/ .]?(?:${month})\.?(?:[\-/ .,]{0,2}[0-9]{1,4})?`,
  String.raw`(?:${month})\.?[\-/ .,]{0,2}[0-9]{1,4}(?:,? ?[0-9]{4})?`,
];

const changed = [...numbers, ...dates, 'true', 'false'].join('|');

/**
 * Text that a spreadsheet does not keep: it evaluates a formula, or shows another number, date or time. A
 * plain integer of at most 11 digits stays as it is.
 */
export const changedTextPattern = `^(?:${formula}|[ ${noBreakSpaces}]*(?:${changed})[ ${noBreakSpaces}]*$)`;

/** A number of more than 15 digits, which a spreadsheet rounds. */
export const roundedNumberPattern = '^-?(?:[0-9][.,]?){16}';
