import { z } from 'zod';
import { wholeNumber } from '../domain/whole-number.ts';

/** Seconds, as milliseconds. */
export function seconds(min: number, max: number, defaultValue: number) {
  return wholeNumber(min, max, defaultValue).transform((number) => number * 1000);
}

export function mebibytes(min: number, max: number, defaultValue: number) {
  return wholeNumber(min, max, defaultValue).transform((number) => number * 2 ** 20);
}

/** `host:port`, with an IPv6 address in brackets. */
export function listenAddress() {
  return z
    .string()
    .regex(
      /^([\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5}$/,
      'must be host:port, such as 127.0.0.1:9464 or [::1]:9464',
    )
    .transform((text) => {
      const colon = text.lastIndexOf(':');
      return {
        host: text.slice(0, colon).replaceAll(/[[\]]/g, ''),
        port: Number(text.slice(colon + 1)),
      };
    })
    .refine(({ port }) => port <= 65_535, 'must have a port from 0 to 65535')
    .nullable()
    .default(null);
}

/** A size of DuckDB. */
export function size(defaultValue: string) {
  return z
    .string()
    .regex(/^\d+(MB|GB|MiB|GiB)$/, 'must be a size such as 512MB or 2GiB')
    .default(defaultValue);
}

/** Items that are separated by commas. */
export function list() {
  return z
    .string()
    .transform((text): readonly string[] => text.split(',').map((item) => item.trim()))
    .default([]);
}

/** As browsers send it: in lower case, without a path, and without the scheme's default port. */
export function isOrigin(text: string): boolean {
  return /^https?:[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

/** An address of ClickHouse's HTTP interface, without a path. */
export function isServerAddress(address: string): boolean {
  return isPlainAddress(address) && new URL(address).pathname === '/';
}

/** A name that needs no quotes in SQL. */
export function name() {
  return z.string().regex(/^[A-Za-z_]\w{0,62}$/, 'must be a name of letters, digits and _');
}

/** An address without query or fragment, so that a path can follow. */
export function isPlainAddress(address: string): boolean {
  return URL.canParse(address) && /^https?:\/\/[^\s?#]+$/.test(address);
}
