import type { RandomSource } from '../../../src/seed/random-source.ts';
import type { Roles } from './change.ts';

/** `set local` statements of a session as other programs have them. */
export function sessionSettings(random: RandomSource): string[] {
  const settings: Readonly<Record<string, readonly string[]>> = {
    DateStyle: ['ISO, MDY', 'SQL, DMY', 'German, YMD', 'Postgres, MDY'],
    TimeZone: ['UTC', 'America/Sao_Paulo', 'Asia/Kathmandu', '-13'],
    search_path: [
      "''",
      'decoy, pg_catalog',
      'store',
      '"Store two", decoy',
      'decoy, store, pg_catalog, pg_temp',
      '"$user", public',
    ],
    extra_float_digits: ['-15', '0', '3'],
    bytea_output: ['hex', 'escape'],
    IntervalStyle: ['postgres', 'sql_standard', 'iso_8601'],
    lc_monetary: ['C'],
    quote_all_identifiers: ['on', 'off'],
    standard_conforming_strings: ['on', 'off'],
    check_function_bodies: ['on', 'off'],
    row_security: ['on'],
    default_transaction_deferrable: ['on', 'off'],
    statement_timeout: ['20s'],
    'plpgsql.variable_conflict': ['error', 'use_variable', 'use_column'],
    'plpgsql.extra_errors': ['all', 'none'],
    array_nulls: ['on', 'off'],
    transform_null_equals: ['on', 'off'],
    xmlbinary: ['hex', 'base64'],
  };
  return Object.entries(settings)
    .filter(() => random.chance(0.4))
    .map(([name, values]) => {
      const value = random.pick(values);
      return `set local ${name} to ${name === 'search_path' ? value : `'${value}'`}`;
    });
}

/** Tables and types that hide those of the service and of Postgres on a search path. */
export const decoys = `
  create schema decoy;
  create table decoy.mapping_changes (view int, key int);
  create domain decoy.text as varchar(1);
  create domain decoy.jsonb as int;
  create function decoy.to_jsonb(anyelement) returns int language sql as 'select 1 / 0';
  grant usage on schema decoy to public`;

export function sessionRole(
  random: RandomSource,
  { owner, writer, visitor }: Roles,
): string | null {
  const choice = random.fraction();
  if (choice < 0.3) return writer;
  if (choice < 0.45) return visitor;
  return choice < 0.6 ? owner : null;
}
