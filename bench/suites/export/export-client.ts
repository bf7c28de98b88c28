import { once } from 'node:events';
import { connect } from 'node:net';
import type { ExportFormatName } from '../../../src/http/formats/negotiation.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { authorization, type BenchmarkShop } from '../../setup/shops.ts';

const lastChunk = Buffer.from('0\r\n\r\n');

/**
 * Reads an export and drops it. Returns false if the API refuses it because too many run: the API
 * counts an export for a moment after its client has received it. The socket writes into the same
 * memory each time: `node:http` takes three times the processor time for a GiB, which the API shares
 * with this process.
 */
export async function readExport(
  { api }: RunningService,
  shop: BenchmarkShop,
  format: ExportFormatName,
): Promise<boolean> {
  const { hostname, port } = new URL(api.url);
  let head = '';
  let tail = Buffer.alloc(0);
  const collect = (count: number, memory: Uint8Array): boolean => {
    const part = Buffer.from(memory.buffer, memory.byteOffset, count);
    if (head === '') head = part.toString('latin1', 0, 12);
    tail = Buffer.concat([tail, part.subarray(-lastChunk.length)]).subarray(-lastChunk.length);
    return true;
  };
  const onread = { buffer: Buffer.alloc(256 * 1024), callback: collect };
  const socket = connect({ host: hostname, port: Number(port), onread });
  const headers = { ...authorization(shop), host: hostname, connection: 'close' };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET /v1/purchases/export?format=${format} HTTP/1.1\r\n${lines.join('')}\r\n`);
  await once(socket.resume(), 'close');
  if (head === 'HTTP/1.1 429') return false;
  if (head !== 'HTTP/1.1 200') throw new Error(`an export returned ${head}`);
  if (!tail.equals(lastChunk)) throw new Error('an export is not complete');
  return true;
}
