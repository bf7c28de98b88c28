import { ApiProblem, send, unreachable } from '../api/api.ts';
import { decimalMark, texts } from '../language/language.ts';

type Save = { readonly suggestedName: string };
type SavePicker = (options: Save) => Promise<FileSystemFileHandle>;

/** A file of any size. Browsers that can write it to disk as it arrives do so. */
type Large = { readonly signal: AbortSignal; onProgress(bytes: number): void };

type Download = { readonly path: string; readonly name: string; readonly large?: Large };

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

/** Saves the rows of a panel, for spreadsheets. */
export const savePanel = (name: string, path: string, timeZone: string): Promise<void> =>
  download({
    path: forSpreadsheets(path, timeZone),
    name: name === 'purchases' ? 'latest-purchases.csv' : `${name}.csv`,
  });

/** Saves all matching purchases. */
export const saveAll = (kind: 'all' | 'parquet', path: string, timeZone: string, large: Large) =>
  download(
    kind === 'all'
      ? { path: forSpreadsheets(path, timeZone), name: 'purchases.csv', large }
      : { path, name: 'purchases.parquet', large },
  );

/** Whether the user cancelled the download or the choice of a file. */
export const isCancelled = (error: unknown): boolean => (error as Error).name === 'AbortError';

/** Saves a response as a file. The key is sent in a header, so a plain link cannot be used. */
async function download({ path, name, large }: Download): Promise<void> {
  const { showSaveFilePicker: pick } = window as { showSaveFilePicker?: SavePicker };
  // The picker needs the user's click, so it precedes the request.
  const file = large && pick !== undefined ? await pick({ suggestedName: name }) : null;
  const { signal } = large ?? {};
  const response = await send(path, signal);
  const body = countBytes(response, large?.onProgress);
  try {
    if (file === null) offer(await new Response(body).blob(), name);
    // A failure discards what has been written.
    else await body.pipeTo(await file.createWritable(), signal && { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    const problem = unreachable();
    throw new ApiProblem(`${texts.problems.incomplete} ${problem.message}`, 0);
  }
}

function countBytes(
  response: Response,
  onProgress: (bytes: number) => void = () => {},
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

function offer(blob: Blob, name: string): void {
  const href = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement('a'), { href, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
