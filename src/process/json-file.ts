import { readFileSync } from 'node:fs';
import type { z } from 'zod';

/** Null if the file cannot be read, or does not match the schema. */
export function readJsonFile<Content>(path: string, schema: z.ZodType<Content>): Content | null {
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}
