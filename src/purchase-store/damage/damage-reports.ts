import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { decodeId, encodeId } from '../../domain/public-id.ts';
import { draftSuffix, replaceFileSync } from '../../process/replace-file.ts';
import { namesIn, purchasesDirectory } from '../format/current.ts';

/**
 * The API reports a file that it cannot read by a small file in the data folder, because the API
 * may not write to Postgres. The worker rebuilds the organization, and sends no response.
 */
const reportsDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'damaged');

/** Reports a damaged file. `name` is the name of a base or log, or CURRENT. */
export function sendDamageReport(
  dataDirectory: string,
  organizationId: bigint,
  name: string,
): void {
  const directory = reportsDirectory(dataDirectory);
  mkdirSync(directory, { recursive: true });
  const path = join(directory, encodeId('organization', organizationId));
  replaceFileSync(path, name, `${path}.${process.pid}${draftSuffix}`);
}

/** Removes the reports, also those that cannot be read, and returns the names of the damaged files by organization. */
export function takeDamageReports(
  dataDirectory: string,
  isMine: (organizationId: bigint) => boolean,
  onError: (path: string, error: unknown) => void = () => {},
): Map<bigint, string> {
  const directory = reportsDirectory(dataDirectory);
  const taken = new Map<bigint, string>();
  for (const fileName of namesIn(directory)) {
    const id = decodeId('organization', fileName);
    if (id === null || !isMine(id)) continue;
    const path = join(directory, fileName);
    try {
      taken.set(id, readFileSync(path, 'utf8'));
      // Removed before the rebuild begins, so that the next call returns a later report.
      rmSync(path, { force: true });
    } catch (error) {
      // Without the content of the report, any file may be the damaged one.
      taken.set(id, taken.get(id) ?? 'CURRENT');
      onError(path, error);
    }
  }
  return taken;
}
