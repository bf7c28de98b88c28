import { readFileSync } from 'node:fs';
import type { z } from 'zod';

/** JSON in which a bigint is a text. */
export const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (_name, each) => (typeof each === 'bigint' ? String(each) : each));

/** Null if the file cannot be read, or does not match the schema. */
export function readJsonFile<Content>(path: string, schema: z.ZodType<Content>): Content | null {
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}
