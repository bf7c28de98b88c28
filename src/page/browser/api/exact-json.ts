const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** Parses JSON. Integers with 16 or more digits, which a double would round, become text. */
export function parseExactly(json: string): unknown {
  return JSON.parse(
    json.replace(tokens, (token) => (/^-?\d{16,}$/.test(token) ? `"${token}"` : token)),
  );
}

/** An integer of the API, by `parseExactly`. */
export type ExactInteger = number | string;
