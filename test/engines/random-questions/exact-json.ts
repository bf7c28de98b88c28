import { encodeId } from '../../../src/domain/public-id.ts';

/** JSON with each number as its digits, because sums have more digits than a number of JavaScript. */
export const parseExactly = (text: string): unknown =>
  JSON.parse(
    text.replace(/"(?:[^"\\]|\\.)*"|-?\d+/g, (token) =>
      token.startsWith('"') ? token : `"${token}"`,
    ),
  );

/** An answer of the oracle, in which ids of rows stand after the name of their resource. */
export const parseOracle = (text: string): unknown =>
  parseExactly(
    text.replace(/"(purchase|customer):(\d+)"/g, (_, resource: 'purchase' | 'customer', id) =>
      JSON.stringify(encodeId(resource, BigInt(id))),
    ),
  );
