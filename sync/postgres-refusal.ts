import type pg from 'pg';
import { errorText } from '../src/error-text.ts';

/** What the worker does with each table that it uses. */
const rightsOf: Readonly<Record<string, string>> = {
  organizations: 'select',
  purchases: 'select',
  purchase_changes: 'select, insert, delete',
  purchase_change_pruning: 'select, insert, update, delete',
  purchase_change_readers: 'select, insert, update, delete',
};

type Refusal = { readonly message: string; readonly advice: string };

const goesOn = 'The worker then goes on by itself.';

/** Why Postgres refuses a statement of the worker, and what to do; never with values of rows. */
export function describeRefusal(error: pg.DatabaseError): Refusal {
  const { code = '', message } = error;
  const refused = `Postgres refused: ${errorText(error)} (SQLSTATE ${code}).`;
  if (/^(08|57P)/.test(code)) {
    return {
      message: `Postgres ended the connection: ${errorText(error)}.`,
      advice: 'The worker goes on by itself as soon as that is over.',
    };
  }
  if (code === '55P03') {
    return {
      message: 'Another transaction keeps a table locked that the worker reads.',
      advice: `Look for it in pg_locks. ${goesOn}`,
    };
  }
  if (code === '42501') return describeMissingRight(message, refused);
  if (code === '42P01') {
    const table = /relation "([^"]+)"/.exec(message)?.[1] ?? 'that the worker needs';
    return {
      message: `Postgres does not find the table ${table} in the search path.`,
      advice:
        'Run `npm run migrate` if the schema is missing. Otherwise correct the search_path of the ' +
        `worker's role, or of \`options\` in DATABASE_URL. ${goesOn}`,
    };
  }
  if (code === '25006') {
    return {
      message: refused,
      advice:
        "The worker writes to the three purchase_change… tables: set its role's " +
        `default_transaction_read_only to off, and name the primary in DATABASE_URL. ${goesOn}`,
    };
  }
  return { message: refused, advice: 'The worker tries again.' };
}

function describeMissingRight(message: string, refused: string): Refusal {
  const policyTable = /row-level security policy for table "([^"]+)"/.exec(message)?.[1];
  if (policyTable !== undefined) {
    return {
      message: `A row-level security policy may hide rows of the table ${policyTable} from the worker.`,
      advice: `The worker must see all rows: \`alter role … bypassrls\` for its role. ${goesOn}`,
    };
  }
  const table = /permission denied for table (\S+)/.exec(message)?.[1] ?? '';
  const rights = rightsOf[table];
  return {
    message: refused,
    advice:
      rights === undefined
        ? `Grant the worker's role what is missing. ${goesOn}`
        : `Grant it to the worker's role: \`grant ${rights} on ${table} to …\`. ${goesOn}`,
  };
}
