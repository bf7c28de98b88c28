import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import sql from 'sql-template-tag';
import { createInstance, queryRows, quotePath } from '../../src/duckdb/connection.ts';

const fileHeaderBytes = 3 * 4096;
const checksumBytes = 8;
const checksumMultiplier = 0xbf58476d1ce4e5b9n;

/**
 * Writes an unknown mode into a bit-packed column of the file's purchases, with the checksum of
 * the changed block. Reading the column is an internal error of DuckDB: "Invalid bitpacking mode".
 */
export async function forgeBitpackedColumn(
  path: string,
  column: string,
  spillDirectory: string,
): Promise<void> {
  const { block, offset, blockBytes } = await segmentOf(path, column, spillDirectory);
  const file = readFileSync(path);
  const start = fileHeaderBytes + block * blockBytes;
  const bytes = file.subarray(start, start + blockBytes);
  // A segment begins with the position of the end of its metadata: 24 bits of offset, 8 of mode.
  const segment = checksumBytes + offset;
  const metadataEnd = segment + Number(bytes.readBigUInt64LE(segment));
  bytes[metadataEnd - 1] = 0x7f;
  bytes.writeBigUInt64LE(checksumOf(bytes), 0);
  writeFileSync(path, file);
}

/** DuckDB's checksum of a block. */
function checksumOf(block: Buffer): bigint {
  let checksum = 5381n;
  for (let position = checksumBytes; position < block.length; position += 8) {
    checksum ^= BigInt.asUintN(64, block.readBigUInt64LE(position) * checksumMultiplier);
  }
  return checksum;
}

async function segmentOf(path: string, column: string, spillDirectory: string) {
  const instance = await createInstance({
    threads: 1,
    memoryLimit: '256MiB',
    spillDirectory,
    dataDirectory: dirname(path),
  });
  const connection = await instance.connect();
  try {
    await connection.run(`attach ${quotePath(path)} as file (read_only); use file`);
    const [segment] = await queryRows(
      connection,
      sql`select block_id, block_offset,
          (select block_size from pragma_database_size() where database_name = 'file')
        from pragma_storage_info('purchase')
        where column_name = ${column} and segment_type <> 'VALIDITY' and compression = 'BitPacking'`,
    );
    if (segment === undefined) throw new Error(`${column} is not bit-packed`);
    const [block, offset, blockBytes] = segment.map(Number) as [number, number, number];
    return { block, offset, blockBytes };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
