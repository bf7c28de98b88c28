import { z } from 'zod';

/** Plain digits within bounds, of a setting or of a parameter of a request. */
export function wholeNumber(min: number, max: number, defaultValue: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .transform(Number)
    .refine((number) => number >= min && number <= max, message)
    .default(defaultValue);
}
