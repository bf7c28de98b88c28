import { useRef, useState } from 'preact/hooks';
import { ActionButton } from '../components/controls.tsx';
import { Problem } from '../components/problem.tsx';
import { locale, texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';
import { isCancelled, saveAll } from './download.ts';
import { RequestLines } from './request-lines.tsx';

const megabytes = new Intl.NumberFormat(locale, {
  style: 'unit',
  unit: 'megabyte',
  maximumFractionDigits: 1,
});

/** All matching purchases as one file, and the requests of the dashboard. */
export function DownloadPanel() {
  const { requests, state } = useDashboard();
  const [progress, setProgress] = useState('');
  const [problem, setProblem] = useState('');
  /** The button of the running download. */
  const [running, setRunning] = useState<string | null>(null);
  const aborting = useRef<AbortController>(null);
  const save = async (kind: 'all' | 'parquet', path: string) => {
    aborting.current = new AbortController();
    const { signal } = aborting.current;
    setRunning(`#download-${kind}`);
    setProblem('');
    const onProgress = (bytes: number) => setProgress(megabytes.format(bytes / 1e6));
    try {
      await saveAll(kind, path, state.timezone, { signal, onProgress });
      setProgress((size) => texts.downloads.saved(size));
    } catch (error) {
      setProgress('');
      if (!isCancelled(error)) setProblem((error as Error).message);
    }
    setRunning(null);
  };
  const button = (kind: 'all' | 'parquet', path: string) => ({
    id: `download-${kind}`,
    'data-download': kind,
    'aria-labelledby': `download-${kind} download-title`,
    run: () => save(kind, path),
  });
  return (
    <section class="panel download" aria-labelledby="download-title">
      <h2 id="download-title">{texts.downloads.title}</h2>
      <p class="hint">
        {requests.all === null ? texts.filters.inapplicable : texts.downloads.hint}
      </p>
      <div class="downloads" data-focus-next={running}>
        {requests.all && (
          <ActionButton class="primary" {...button('all', requests.all)}>
            CSV
          </ActionButton>
        )}
        {requests.parquet && (
          <ActionButton {...button('parquet', requests.parquet)}>Parquet</ActionButton>
        )}
        {running !== null && (
          <button type="button" class="quiet" onClick={() => aborting.current?.abort()}>
            {texts.filters.cancel}
          </button>
        )}
        <span role="status">{progress}</span>
      </div>
      <Problem text={problem} />
      <RequestLines />
    </section>
  );
}
