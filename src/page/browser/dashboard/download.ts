import { ApiProblem, send, unreachable } from '../api/api.ts';
import { element } from '../display/elements.ts';

type Save = { readonly suggestedName: string };
type SavePicker = (options: Save) => Promise<FileSystemFileHandle>;

type Download = {
  readonly path: string;
  readonly name: string;
  /** A file of any size. Browsers that can write it to disk as it arrives do so. */
  readonly isLarge: boolean;
  /** Changes the text of the file. */
  readonly convert: TransformStream<string, string> | null;
  readonly signal: AbortSignal;
  onProgress(bytes: number): void;
};

/** Saves a response as a file. The key is sent in a header, so a plain link cannot be used. */
export async function download({ path, name, isLarge, convert, ...rest }: Download): Promise<void> {
  const { showSaveFilePicker: pick } = window as { showSaveFilePicker?: SavePicker };
  // The picker needs the user's click, so it precedes the request.
  const file = isLarge && pick !== undefined ? await pick({ suggestedName: name }) : null;
  const response = await send(path, rest.signal);
  const bytes = countBytes(response, rest.onProgress);
  const body = convert === null ? bytes : converted(bytes, convert);
  try {
    if (file === null) offer(await new Response(body).blob(), name);
    // A failure discards what has been written.
    else await body.pipeTo(await file.createWritable(), { signal: rest.signal });
  } catch (error) {
    if (rest.signal.aborted) throw error;
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

function offer(blob: Blob, name: string): void {
  const href = URL.createObjectURL(blob);
  const link = element('a', { href, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
