import { z } from 'zod';
import { grouped } from '../../domain/grouped.ts';
import { paymentStatuses, platforms } from '../../domain/purchase.ts';
import {
  type ExcludedValues,
  maxTextLength,
  type OptionalDimension,
  optionalDimensions,
} from '../../domain/purchase-query.ts';

type Excluded = { readonly name: OptionalDimension; readonly value: string };

/** Of closed sets, a mistyped value would exclude nothing. */
const closedSets: Partial<Record<string, readonly string[]>> = {
  status: paymentStatuses,
  platform: platforms,
};

/** The name and the value of a text such as `utm_source:google`; null if it has another form. */
function readExcluded(text: string): Excluded | null {
  const [, name = '', value = ''] = /^([a-z_]+):(.+)$/s.exec(text) ?? [];
  const isNamed = (optionalDimensions as readonly string[]).includes(name);
  const isShort = [...value].length <= maxTextLength && !value.includes('\0');
  const isKnown = closedSets[name]?.includes(value) ?? true;
  return isNamed && isShort && isKnown ? { name: name as OptionalDimension, value } : null;
}

const message =
  `must be one of ${optionalDimensions.join(', ')}, a colon and a value of 1 to ${maxTextLength} characters; ` +
  'of status and platform, one that they take';

export const excludedValue = z
  .string()
  .refine((text) => readExcluded(text) !== null, message)
  .meta({ type: 'string', pattern: `^(${optionalDimensions.join('|')}):` });

/** The values of a dimension in texts that are valid. */
export const valuesExcludedOf = (texts: readonly string[], name: OptionalDimension): string[] =>
  texts.flatMap((text) => {
    const excluded = readExcluded(text);
    return excluded?.name === name ? [excluded.value] : [];
  });

/** The values that texts exclude. A currency may have several spellings. */
export function excludedValues(
  texts: readonly string[],
  spellings: (currency: string) => readonly string[],
): ExcludedValues {
  const all = texts.flatMap((text) => readExcluded(text) ?? []);
  return Object.fromEntries(
    [...grouped(all, ({ name }) => name)].map(([name, ofName]) => {
      const values = ofName.flatMap(({ value }) =>
        name === 'currency' ? spellings(value) : value,
      );
      return [name, [...new Set(values)]];
    }),
  );
}
