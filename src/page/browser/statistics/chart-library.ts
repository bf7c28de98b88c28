import type uPlot from 'uplot';
import { unreachable } from '../api/api.ts';
import { locale } from '../language/language.ts';

/** Loads uPlot, which is larger than the rest of the page. Only a view with a chart needs it. */
export async function loadChartLibrary(): Promise<typeof uPlot> {
  requireLanguageTag();
  const { default: library } = await import('uplot').catch(() => {
    throw unreachable();
  });
  return library;
}

/** Under a POSIX locale, Chromium has `en-US@posix`, with which the library's first statement fails. */
function requireLanguageTag(): void {
  try {
    Intl.getCanonicalLocales(navigator.language);
  } catch {
    Object.defineProperty(navigator, 'language', { value: locale });
  }
}
