import { byId, moveFocus, runOnce } from '../display/elements.ts';
import { type ProblemHandling, showProblem } from '../display/problems.ts';
import type { Requests } from '../view/requests.ts';
import { download } from './download.ts';

/** What the buttons download: a path, and the name of the file. */
const files: Readonly<
  Record<string, (requests: Requests) => { readonly path: string | null; readonly name: string }>
> = {
  ranking: ({ ranking }) => ({ path: asCsv(ranking), name: 'ranking.csv' }),
  series: ({ series }) => ({ path: asCsv(series), name: 'series.csv' }),
  purchases: ({ purchases }) => ({
    path: purchases && asCsv(purchases),
    name: 'latest-purchases.csv',
  }),
  all: ({ all }) => ({ path: all, name: 'purchases.csv' }),
  parquet: ({ parquet }) => ({ path: parquet, name: 'purchases.parquet' }),
};

/** Spreadsheets would evaluate text like a formula in plain CSV. */
const asCsv = (path: string): string => `${path}&format=csv_excel`;

const megabytes = new Intl.NumberFormat(undefined, {
  style: 'unit',
  unit: 'megabyte',
  maximumFractionDigits: 1,
});

export function connectDownloads(
  requests: () => Requests,
  refuse: ProblemHandling['refuse'],
): void {
  const progress = byId('download-progress');
  const problem = byId('download-problem');
  const cancel = byId('cancel-download');
  for (const button of document.querySelectorAll<HTMLButtonElement>('[data-download]')) {
    const kind = button.dataset.download ?? '';
    const isLarge = kind === 'parquet' || kind === 'all';
    const start = async () => {
      const file = files[kind]?.(requests());
      if (file?.path == null) return;
      const { path, name } = file;
      const aborting = new AbortController();
      cancel.onclick = () => aborting.abort();
      cancel.hidden = !isLarge;
      problem.hidden = true;
      const onProgress = (bytes: number) => {
        if (isLarge) progress.textContent = megabytes.format(bytes / 1e6);
      };
      try {
        await download({ path, name, isLarge, signal: aborting.signal, onProgress });
        if (isLarge) progress.textContent += ' saved';
      } catch (error) {
        progress.textContent = '';
        showFailure(error, isLarge, { refuse, retry });
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
