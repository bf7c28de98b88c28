import { send, unreachable } from '../api/api.ts';
import { ApiProblem } from '../api/problem.ts';
import { decimalMark, texts } from '../language/language.ts';

type Save = { readonly suggestedName: string };
type SavePicker = (options: Save) => Promise<FileSystemFileHandle>;

/** A file of any size. Browsers that can write it to disk as it arrives do so. */
type Progress = { readonly signal: AbortSignal; onProgress(bytes: number): void };

type Download = Progress & { readonly path: string; readonly name: string };

/**
 * The request of a file for spreadsheets, with local times and the marks that Excel expects in the
 * reader's country. Spreadsheets would evaluate text like a formula in plain CSV.
 */
function forSpreadsheets(path: string, timezone: string): string {
  const { pathname, searchParams } = new URL(path, location.origin);
  const marks = decimalMark === ',' ? { separator: 'semicolon', decimal: 'comma' } : {};
  const options = { format: 'csv_excel', amounts: 'units', timezone, ...marks };
  for (const [name, value] of Object.entries(options)) searchParams.set(name, value);
  return `${pathname}?${searchParams}`;
}

/** Saves all matching purchases. */
export const saveAll = (
  kind: 'all' | 'parquet',
  path: string,
  timeZone: string,
  progress: Progress,
) =>
  download(
    kind === 'all'
      ? { path: forSpreadsheets(path, timeZone), name: 'purchases.csv', ...progress }
      : { path, name: 'purchases.parquet', ...progress },
  );

/** Whether the user cancelled the download or the choice of a file. */
export const isCancelled = (error: unknown): boolean => (error as Error).name === 'AbortError';

/** Saves a response as a file. The key is sent in a header, so a plain link cannot be used. */
async function download({ path, name, signal, onProgress }: Download): Promise<void> {
  const { showSaveFilePicker: pick } = window as { showSaveFilePicker?: SavePicker };
  // The picker needs the user's click, so it precedes the request.
  const file = pick === undefined ? null : await pick({ suggestedName: name });
  const response = await send(path, signal);
  const body = countBytes(response, onProgress);
  try {
    if (file === null) offer(await new Response(body).blob(), name);
    // A failure discards what has been written.
    else await body.pipeTo(await file.createWritable(), { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    const problem = unreachable();
    throw new ApiProblem(`${texts.problems.incomplete} ${problem.message}`, 0);
  }
}

function countBytes(
  response: Response,
  onProgress: (bytes: number) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let bytes = 0;
  const count = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      bytes += chunk.byteLength;
      onProgress(bytes);
      controller.enqueue(chunk);
    },
  });
  return (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(count);
}

/** Saves a file in the downloads of the browser. */
export function offer(blob: Blob, name: string): void {
  const href = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement('a'), { href, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
