import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withFileAdvice } from '../../src/process/file-advice.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { makeDataDirectory } from '../../src/process/private-files.ts';
import { purchasesDirectory } from '../../src/purchase-store/format/current.ts';

/** The UUID of the data folder. The first call creates the UUID. */
export async function dataFolderId(dataDirectory: string): Promise<string> {
  const file = folderFile(dataDirectory);
  // An existing file is only read: a worker can start while the disk is full.
  return requireId(file, (await readIfPresent(file)) ?? (await createId(file, dataDirectory)));
}

/** The UUID of the data folder, or an empty text if the folder has none. Writes nothing. */
export async function readDataFolderId(dataDirectory: string): Promise<string> {
  const file = folderFile(dataDirectory);
  const content = await readIfPresent(file);
  return content === null ? '' : requireId(file, content);
}

const folderFile = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'FOLDER');

function requireId(file: string, content: string): string {
  const id = content.trim();
  if (/^[0-9a-f-]{36}$/.test(id)) return id;
  throw new OperatorError(`${file} should hold a UUID and does not: delete it and start again.`);
}

async function readIfPresent(file: string): Promise<string | null> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    // ENOTDIR: the later attempt to write reports the cause.
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw new OperatorError(`Cannot read ${file}: ${withFileAdvice(error)}`);
  });
}

/** Returns the content of the file, which another process may have written first. */
async function createId(file: string, dataDirectory: string): Promise<string> {
  const draft = `${file}.${process.pid}`;
  try {
    makeDataDirectory(dataDirectory);
    await mkdir(purchasesDirectory(dataDirectory)).catch(ignoreExisting);
    // A link is atomic, and never replaces an existing file.
    await writeFile(draft, `${randomUUID()}\n`, { flush: true });
    await link(draft, file).catch(ignoreExisting);
  } catch (error) {
    throw new OperatorError(
      `Cannot write to DATA_DIR ${dataDirectory}: ${withFileAdvice(error as Error)}`,
    );
  } finally {
    await rm(draft, { force: true }).catch(() => {});
  }
  return readFile(file, 'utf8');
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
