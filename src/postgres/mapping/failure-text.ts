import type { DatabaseError } from 'pg';

type Refusal = Pick<DatabaseError, 'code' | 'message' | 'routine'>;

/** What Postgres says of a view or a row, without values of rows. */
export function failureText({ code = '', message, routine }: Refusal): string {
  // A function of the shop may write values anywhere in its message, with any code.
  if (code.startsWith('P0') || routine === 'exec_stmt_raise') return 'raises an exception';
  // Quoted are names of columns, tables and functions.
  if (/^(42|0A)/.test(code)) return message;
  return message.replace(/: ".*"$/s, '').replace(/"[^"]*"/g, '…');
}
