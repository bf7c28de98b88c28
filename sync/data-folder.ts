import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { purchasesDirectory } from '../src/engines/duckdb/published-generation.ts';
import { OperatorError } from '../src/operator-error.ts';

/** The folder's own name, made up once and kept in it. */
export async function dataFolderId(dataDirectory: string): Promise<string> {
  const directory = purchasesDirectory(dataDirectory);
  const file = join(directory, 'FOLDER');
  try {
    await mkdir(directory, { recursive: true });
    // Written whole or not at all: a link never replaces what is there.
    const draft = `${file}.${process.pid}`;
    await writeFile(draft, `${randomUUID()}\n`, { flush: true });
    await link(draft, file).finally(() => rm(draft));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'EEXIST') {
      throw new OperatorError(`Cannot write to DATA_DIR ${dataDirectory}: ${message}`);
    }
  }
  const id = (await readFile(file, 'utf8')).trim();
  if (/^[0-9a-f-]{36}$/.test(id)) return id;
  throw new OperatorError(`${file} should hold a UUID and does not: delete it and start again.`);
}
