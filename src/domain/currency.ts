/** The currencies of ISO 4217 whose smallest unit is not a hundredth, by its decimal digits. */
const currenciesByDigits = {
  0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
  3: 'BHD IQD JOD KWD LYD OMR TND',
  4: 'CLF UYW',
} as const;

type MinorDigits = 0 | 2 | 3 | 4;

/** The digits of a missing or unknown currency, and of all that `digitsByCurrency` does not list. */
export const usualDigits = 2;

/** The decimal digits of the smallest unit, of currencies that do not have two. */
export const digitsByCurrency: Readonly<Record<string, MinorDigits>> = Object.fromEntries(
  Object.entries(currenciesByDigits).flatMap(([digits, codes]) =>
    codes.split(' ').map((code) => [code, Number(digits) as MinorDigits]),
  ),
);

/**
 * The decimal digits of amounts, which are in the smallest unit of their currency. A code in lower case is
 * unknown.
 */
export const minorDigits = (currency: string | null): MinorDigits =>
  // Currencies are open text in the data, such as `constructor`.
  currency !== null && Object.hasOwn(digitsByCurrency, currency)
    ? (digitsByCurrency[currency] as MinorDigits)
    : usualDigits;

let codes: ReadonlySet<string> | undefined;

/** The code of ISO 4217 that a text is in any case; null if it is none. */
export function currencyCode(text: string): string | null {
  codes ??= new Set([...Intl.supportedValuesOf('currency'), ...Object.keys(digitsByCurrency)]);
  const code = /^[a-z]{3}$/i.test(text) ? text.toUpperCase() : '';
  return codes.has(code) ? code : null;
}

/** A code with each of its letters in upper and in lower case. */
export const spellingsOf = (code: string): string[] =>
  [...code].reduce<string[]>(
    (spellings, letter) =>
      spellings.flatMap((begin) => [begin + letter, begin + letter.toLowerCase()]),
    [''],
  );
