import { byId, moveFocus, runOnce } from '../display/elements.ts';
import { language } from '../display/format.ts';
import { type ProblemHandling, showProblem } from '../display/problems.ts';
import type { Requests } from '../view/requests.ts';
import { download } from './download.ts';
import { spreadsheetOf } from './spreadsheet.ts';

/** The names of the files that the buttons download, by the name of the request. */
const names = {
  ranking: 'ranking.csv',
  series: 'series.csv',
  purchases: 'latest-purchases.csv',
  all: 'purchases.csv',
  parquet: 'purchases.parquet',
} as const satisfies Partial<Record<keyof Requests, string>>;

const megabytes = new Intl.NumberFormat(language, {
  style: 'unit',
  unit: 'megabyte',
  maximumFractionDigits: 1,
});

export function connectDownloads(
  requests: () => Requests,
  timeZone: () => string,
  onKeyRefused: ProblemHandling['onKeyRefused'],
): void {
  const progress = byId('download-progress');
  const problem = byId('download-problem');
  const cancel = byId('cancel-download');
  for (const button of document.querySelectorAll<HTMLButtonElement>('[data-download]')) {
    const kind = button.dataset.download as keyof typeof names;
    const isLarge = kind === 'parquet' || kind === 'all';
    const start = async () => {
      const request = requests()[kind];
      // Spreadsheets would evaluate text like a formula in plain CSV.
      const path = isLarge ? request : `${request}&format=csv_excel`;
      const aborting = new AbortController();
      cancel.onclick = () => aborting.abort();
      cancel.hidden = !isLarge;
      problem.hidden = true;
      const onProgress = (bytes: number) => {
        if (isLarge) progress.textContent = megabytes.format(bytes / 1e6);
      };
      try {
        const interval =
          new URL(request, location.origin).searchParams.get('interval') ?? undefined;
        const convert = kind === 'parquet' ? null : spreadsheetOf(timeZone(), interval);
        const { signal } = aborting;
        await download({ path, name: names[kind], isLarge, convert, signal, onProgress });
        if (isLarge) progress.textContent += ' saved';
      } catch (error) {
        progress.textContent = '';
        showFailure(error, isLarge, { onKeyRefused, retry });
      } finally {
        moveFocus(cancel, button);
        cancel.hidden = true;
      }
    };
    const retry = () => void runOnce(button, start);
    button.addEventListener('click', retry);
  }

  function showFailure(error: unknown, isLarge: boolean, handling: ProblemHandling): void {
    // The user cancelled the download or the choice of a file.
    if ((error as Error).name === 'AbortError') return;
    const { status } = error as { status?: number };
    if (!isLarge || status === 401) {
      showProblem(error, handling);
      return;
    }
    problem.textContent = (error as Error).message;
    problem.hidden = false;
  }
}
