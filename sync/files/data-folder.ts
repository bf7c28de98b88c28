import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OperatorError } from '../../src/operator-error.ts';
import { makeDataDirectory } from '../../src/private-files.ts';
import { purchasesDirectory } from '../../src/purchase-store/published-generation.ts';

/** The folder's own name, made up once and kept in it. */
export async function dataFolderId(dataDirectory: string): Promise<string> {
  const file = folderFile(dataDirectory);
  // Where there is one nothing is written: a worker can start while the disk is full.
  return requireId(file, (await readIfPresent(file)) ?? (await makeUp(file, dataDirectory)));
}

/** As `dataFolderId`, but writes nothing: an empty text, no folder's name, if there is none yet. */
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
  return readFile(file, 'utf8').catch(({ code }: NodeJS.ErrnoException) => {
    // A file where a folder should be: writing says so.
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new OperatorError(`Cannot read ${file}: ${code}.`);
  });
}

/** Gives what the file then holds, whoever was first to write it. */
async function makeUp(file: string, dataDirectory: string): Promise<string> {
  const draft = `${file}.${process.pid}`;
  try {
    makeDataDirectory(dataDirectory);
    await mkdir(purchasesDirectory(dataDirectory), { recursive: true });
    // Written whole or not at all: a link never replaces what is there.
    await writeFile(draft, `${randomUUID()}\n`, { flush: true });
    await link(draft, file);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'EEXIST') {
      throw new OperatorError(`Cannot write to DATA_DIR ${dataDirectory}: ${message}`);
    }
  } finally {
    await rm(draft, { force: true }).catch(() => {});
  }
  return readFile(file, 'utf8');
}
