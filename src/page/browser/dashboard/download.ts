import { ApiProblem, send, unreachable } from '../api/api.ts';
import { spreadsheetOf } from './spreadsheet.ts';

type Save = { readonly suggestedName: string };
type SavePicker = (options: Save) => Promise<FileSystemFileHandle>;

/** A file of any size. Browsers that can write it to disk as it arrives do so. */
type Large = { readonly signal: AbortSignal; onProgress(bytes: number): void };

type Download = {
  readonly path: string;
  readonly name: string;
  /** Changes the text of the file. */
  readonly convert: TransformStream<string, string> | null;
  readonly large?: Large;
};

/** Saves the rows of a panel, for spreadsheets. */
export function savePanel(name: string, request: string, timeZone: string): Promise<void> {
  const interval = new URL(request, location.origin).searchParams.get('interval') ?? undefined;
  return download({
    // Spreadsheets would evaluate text like a formula in plain CSV.
    path: `${request}&format=csv_excel&amounts=units`,
    name: name === 'purchases' ? 'latest-purchases.csv' : `${name}.csv`,
    convert: spreadsheetOf(timeZone, interval),
  });
}

/** Saves all matching purchases. */
export const saveAll = (kind: 'all' | 'parquet', path: string, timeZone: string, large: Large) =>
  download(
    kind === 'all'
      ? { path, name: 'purchases.csv', convert: spreadsheetOf(timeZone), large }
      : { path, name: 'purchases.parquet', convert: null, large },
  );

/** Whether the user cancelled the download or the choice of a file. */
export const isCancelled = (error: unknown): boolean => (error as Error).name === 'AbortError';

/** Saves a response as a file. The key is sent in a header, so a plain link cannot be used. */
async function download({ path, name, convert, large }: Download): Promise<void> {
  const { showSaveFilePicker: pick } = window as { showSaveFilePicker?: SavePicker };
  // The picker needs the user's click, so it precedes the request.
  const file = large && pick !== undefined ? await pick({ suggestedName: name }) : null;
  const { signal } = large ?? {};
  const response = await send(path, signal);
  const bytes = countBytes(response, large?.onProgress);
  const body = convert === null ? bytes : converted(bytes, convert);
  try {
    if (file === null) offer(await new Response(body).blob(), name);
    // A failure discards what has been written.
    else await body.pipeTo(await file.createWritable(), signal && { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    const problem = unreachable();
    throw new ApiProblem(`The download is not complete. ${problem.message}`, 0);
  }
}

function converted(
  bytes: ReadableStream,
  convert: TransformStream<string, string>,
): ReadableStream {
  // The decoder drops the byte order mark, which spreadsheets need.
  const text = new TransformStream<string, string>({
    start: (controller) => controller.enqueue('\ufeff'),
  });
  return bytes
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(convert)
    .pipeThrough(text)
    .pipeThrough(new TextEncoderStream());
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
