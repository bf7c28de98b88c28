import type { WeekStart } from '../../../domain/period.ts';
import type { Catalogue } from './en.ts';

/** Each language, with the locale of its formats where the browser prefers none. */
const languages = {
  en: { name: 'English', load: () => import('./en.ts'), tag: 'en', locale: 'en-US' },
  pt: { name: 'Português', load: () => import('./pt.ts'), tag: 'pt-BR', locale: 'pt-BR' },
} as const;

export type Language = keyof typeof languages;

/** The name of the language that the reader has chosen, in the browser's `localStorage`. */
export const storageName = 'language';

type Browser = {
  readonly navigator: { readonly languages: readonly string[] };
  readonly localStorage: { getItem(name: string): string | null };
};

/** Null in Node, where tests run some modules of the page in English. */
const browser = 'document' in globalThis ? (globalThis as unknown as Browser) : null;

const languageOf = (tag: string): Language | undefined =>
  (Object.keys(languages) as Language[]).find((name) => tag.split('-')[0] === name);

/** Under a POSIX locale, Chromium has `en-US@posix`, which Intl refuses. */
function isLanguageTag(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length === 1;
  } catch {
    return false;
  }
}

const preferred = browser?.navigator.languages.filter(isLanguageTag) ?? [];

/** What the reader has chosen, or the first language of the browser that the page has. */
export const language: Language =
  languageOf(browser?.localStorage.getItem(storageName) ?? '') ??
  preferred.map(languageOf).find((name) => name !== undefined) ??
  'en';

/** The formats of numbers and dates: those of the reader's country, if it has the language. */
export const locale: string =
  preferred.find((tag) => languageOf(tag) === language) ?? languages[language].locale;

/** The tag of the language for the attribute `lang`. */
export const languageTag = languages[language].tag;

/** The texts of the language. The browser loads no other ones. */
export const { texts }: { readonly texts: Catalogue } = await languages[language].load();

/** The languages that the page can change to. */
export const otherLanguages = (Object.keys(languages) as Language[])
  .filter((name) => name !== language)
  .map((value) => ({ value, name: languages[value].name, tag: languages[value].tag }));

/** The mark of decimals: `.` or `,`. */
export const decimalMark: string =
  new Intl.NumberFormat(locale).formatToParts(0.5).find(({ type }) => type === 'decimal')?.value ??
  '.';

type WeekInfo = { readonly firstDay: number };
type LocaleWithWeeks = Intl.Locale & { weekInfo?: WeekInfo; getWeekInfo?(): WeekInfo };

const calendar: LocaleWithWeeks = new Intl.Locale(locale);

const weekStarts: Readonly<Record<number, WeekStart>> = { 6: 'saturday', 7: 'sunday' };

/** The day with which weeks begin; Monday also where the browser does not know. */
export const weekStart: WeekStart =
  weekStarts[(calendar.getWeekInfo?.() ?? calendar.weekInfo)?.firstDay ?? 1] ?? 'monday';

export type Plural = { readonly one: string; readonly other: string };

const plurals = new Intl.PluralRules(locale);

/** The form of a number, with the number as text in place of `#`. */
export function pluralOf(forms: Plural, count: number, text: string): string {
  const form = plurals.select(count) === 'one' ? forms.one : forms.other;
  return form.replace('#', text);
}
