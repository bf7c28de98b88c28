import { encodeId, type IdentifiedResource, idPrefixes, idSpellings } from '../domain/public-id.ts';
import type { PackedTexts, PlainValues } from '../http/formats/column-data.ts';

const code = (character: string): number => character.charCodeAt(0);

/**
 * Spells many numbers as public ids, as `encodeId` does: those that sqids takes as one
 * number are all equally long, and written where they belong. Where there are others it is
 * asked for each.
 */
export function createColumnarIds(
  resource: IdentifiedResource,
): (numbers: BigInt64Array) => PackedTexts | PlainValues {
  const { spellings, least } = idSpellings();
  const base = spellings.length - 1;
  const prefix = `${idPrefixes[resource]}_`;
  const length = prefix.length + 1 + least;
  const pattern = prefix.padEnd(length, '0');
  const firsts = Uint8Array.from(spellings, ({ first }) => code(first));
  const digits = spellings.map((spelling) => Uint8Array.from(spelling.digits, code));
  const fillings = spellings.map(({ filling }) => Buffer.from(filling));

  /** Writes what `number` shows after the prefix. V8 divides small integers several times as fast. */
  const write = (bytes: Uint8Array, place: number, number: number): void => {
    const remainder = number % spellings.length;
    bytes[place] = firsts[remainder] as number;
    const digitsOf = digits[remainder] as Uint8Array;
    let count = 1;
    for (let power = base; power <= number; power *= base) count += 1;
    let rest = number;
    for (let index = count; index > 0; index -= 1) {
      const higher = rest <= largestInteger ? (rest / base) | 0 : Math.floor(rest / base);
      bytes[place + index] = digitsOf[rest - higher * base] as number;
      rest = higher;
    }
    const filling = fillings[remainder] as Uint8Array;
    for (let index = 0; index < least - count; index += 1) {
      bytes[place + 1 + count + index] = filling[index] as number;
    }
  };

  return (numbers) => {
    // The prefix again and again; what is between is written over.
    const bytes = Buffer.alloc(numbers.length * length, pattern);
    const offsets = new Int32Array(numbers.length + 1);
    const halves = new Int32Array(numbers.buffer, numbers.byteOffset, numbers.length * 2);
    for (let row = 0; row < numbers.length; row += 1) {
      const place = row * length;
      offsets[row + 1] = place + length;
      const low = halves[2 * row] as number;
      if (low >= 0 && halves[2 * row + 1] === 0) {
        write(bytes, place + prefix.length, low);
        continue;
      }
      const number = numbers[row] as bigint;
      if (number < 0n || number > largestAsOne) {
        return Array.from(numbers, (each) => encodeId(resource, each));
      }
      write(bytes, place + prefix.length, Number(number));
    }
    return { bytes, offsets, present: null };
  };
}

const largestInteger = 2 ** 31 - 1;
const largestAsOne = BigInt(Number.MAX_SAFE_INTEGER);
