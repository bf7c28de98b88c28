import { setTimeout as sleep } from 'node:timers/promises';
import { recordLines } from './logged-lines.ts';
import type { Program } from './program.ts';

/** One scrape: the text, and the value of a series such as `crm_queries{state="running"}`. */
export type Scrape = { readonly text: string; value(series: string): number | undefined };

type Scraper = {
  /** GET by default. */
  request(path?: string, method?: string): Promise<Response>;
  scrape(): Promise<Scrape>;
  /** Scrapes until the condition holds, or a series is above 0. Runs `provoke` before each scrape. */
  until(
    condition: string | ((scrape: Scrape) => boolean),
    provoke?: () => Promise<unknown>,
  ): Promise<Scrape>;
};

/** The metrics that a program serves; its log shows where. */
export async function scraperOf(program: Program): Promise<Scraper> {
  const [, url = ''] = await program.printed(/"url":"(http[^"]+\/metrics)"/);
  // biome-ignore lint/style/noRestrictedGlobals: The metrics are no part of the API's description.
  const request = (path = '/metrics', method = 'GET') => fetch(new URL(path, url), { method });
  const scrape = async (): Promise<Scrape> => {
    const text = await (await request()).text();
    recordLines(text);
    return { text, value: (series) => readSeries(text, series) };
  };
  return {
    request,
    scrape,
    async until(condition, provoke = () => sleep(20)) {
      const holds =
        typeof condition === 'string'
          ? ({ value }: Scrape) => (value(condition) ?? 0) > 0
          : condition;
      for (;;) {
        await provoke();
        const found = await scrape();
        if (holds(found)) return found;
      }
    },
  };
}

/** The value of a series; the sum of all series that have the name and labels that are given. */
function readSeries(text: string, series: string): number | undefined {
  const [, name = '', labels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? [];
  const needed = labels.match(/\w+="[^"]*"/g) ?? [];
  const values = text.split('\n').flatMap((line) => {
    const [, found, inBraces = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const has = new Set(inBraces.match(/\w+="[^"]*"/g));
    return found === name && needed.every((label) => has.has(label)) ? [Number(value)] : [];
  });
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}
