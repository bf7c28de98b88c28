import pg from 'pg';
import { errorText } from '../../process/error-text.ts';

/** A condition of Postgres, the network or a role, for an operator. Contains no values of rows. */
export type DatabaseFailure = {
  readonly message: string;
  readonly advice: string;
  /** The condition may end without a change of settings or database. */
  readonly isTransient?: true | undefined;
};

/** Privileges by table, such as `select, insert`. */
export type TableRights = Readonly<Record<string, string>>;

/**
 * Null for other errors: a fault of this program, or of a row. `rights` are the privileges that the
 * role needs, for the advice.
 */
export function describeDatabaseFailure(
  error: unknown,
  rights: TableRights = {},
): DatabaseFailure | null {
  if (error instanceof AggregateError && error.message === '') {
    return describeDatabaseFailure(error.errors[0], rights);
  }
  if (error instanceof pg.DatabaseError) return describeRefusal(error, rights);
  if (!(error instanceof Error)) return null;
  return describeConnectionFailure(error, String((error as { code?: unknown }).code ?? ''));
}

const networkCodes =
  /^(ECONNREFUSED|ECONNRESET|ECONNABORTED|EPIPE|ETIMEDOUT|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN)$/;
const certificateCodes = /CERT|ERR_TLS|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/;

function describeConnectionFailure(error: Error, code: string): DatabaseFailure | null {
  const text = errorText(error);
  if (
    networkCodes.test(code) ||
    // The Unix socket of a server that does not run.
    (code === 'ENOENT' && (error as NodeJS.ErrnoException).syscall === 'connect') ||
    /^(Connection terminated|Client has encountered|timeout e|Query read timeout)/.test(text)
  ) {
    return {
      message: `The connection to Postgres failed: ${text}.`,
      advice: 'Check that it runs and can be reached.',
      isTransient: true,
    };
  }
  if (certificateCodes.test(code)) {
    // Node 24 appends advice that does not apply here.
    const [reason] = text.split('; ');
    return {
      message: `The certificate of Postgres cannot be verified: ${reason}.`,
      advice:
        'Name the certificate authority in DATABASE_URL: `sslmode=verify-full&sslrootcert=/path/to/ca.pem`. ' +
        'With `sslmode=no-verify` the connection is encrypted, but anybody may answer.',
    };
  }
  if (/does not support SSL/.test(text)) {
    return {
      message: 'DATABASE_URL asks for TLS, which this Postgres does not offer.',
      advice: 'Switch on `ssl` in Postgres, or set `sslmode=disable` in DATABASE_URL.',
    };
  }
  if (code === 'EPROTO' || /^(SASL|There was an error establishing an SSL)/.test(text)) {
    return {
      message: `Postgres cannot be logged in to: ${text}.`,
      advice: 'Correct the user and the password in DATABASE_URL.',
    };
  }
  return null;
}

/** An error of Postgres by SQLSTATE, and by message or routine if the SQLSTATE is ambiguous. */
type Condition = {
  readonly code: RegExp;
  readonly text?: RegExp;
  readonly routine?: string;
  /** Precedes the message of Postgres; `Postgres refused` by default. */
  readonly summary?: string;
  readonly advice: string;
  readonly isTransient?: true;
};

export const poolerAdvice =
  'Name Postgres itself in DATABASE_URL, or a pool whose pool_mode is session.';

/** The first match applies. */
const conditions: readonly Condition[] = [
  {
    code: /^08P01$/,
    text: /unsupported startup parameter/,
    advice:
      'Remove `options` from DATABASE_URL, and set them as `alter role … set search_path = …`.',
  },
  {
    code: /^57P03$/,
    summary: 'Postgres does not accept connections',
    advice: 'Wait until it has started.',
    isTransient: true,
  },
  {
    code: /^(08|57P)/,
    summary: 'Postgres ended the connection',
    advice: 'Check that Postgres runs and can be reached.',
    isTransient: true,
  },
  {
    code: /^53300$/,
    text: /for (role|database)/,
    advice: 'Raise the limit: `alter role … connection limit …`, or `alter database …`.',
    isTransient: true,
  },
  {
    code: /^53300$/,
    advice: 'Raise max_connections, or close connections of others.',
    isTransient: true,
  },
  { code: /^53/, advice: 'Free disk space or memory of Postgres.' },
  {
    code: /^55000$/,
    routine: 'CheckMyDatabase',
    advice: 'Allow connections: `alter database … with allow_connections true`.',
    isTransient: true,
  },
  {
    code: /^28000$/,
    routine: 'InitializeSessionUserId',
    advice: 'Create the role, or allow it to log in: `alter role … login`.',
    isTransient: true,
  },
  {
    code: /^28000$/,
    text: /no encryption|SSL off/,
    advice: 'Set `sslmode=verify-full` in DATABASE_URL, or add a line to pg_hba.conf.',
  },
  { code: /^28000$/, advice: 'Add a line for this role and address to pg_hba.conf.' },
  { code: /^28P01$/, advice: 'Correct the user and the password in DATABASE_URL.' },
  {
    code: /^3D000$/,
    advice:
      "Create it: `create database … encoding 'UTF8' template template0`. Or correct DATABASE_URL.",
  },
  {
    code: /^3F000$/,
    advice: 'Create the schema that the search_path names: `create schema …`.',
  },
  {
    code: /^55P03$/,
    summary: 'Another transaction keeps a table locked',
    advice: 'Look for it in pg_locks.',
    isTransient: true,
  },
  {
    code: /^42(703|883)$/,
    advice: 'Run `npx crm-data-service migrate`: the schema may be that of another release.',
  },
  {
    code: /^25006$/,
    advice:
      "Set the role's default_transaction_read_only to off, and name the primary in DATABASE_URL.",
  },
];

function describeRefusal(error: pg.DatabaseError, rights: TableRights): DatabaseFailure | null {
  const { code = '', message } = error;
  const refused = `Postgres refused: ${errorText(error)} (SQLSTATE ${code}).`;
  if (code === '42501') return missingRight(message, refused, rights);
  if (code === '42P01') return missingTable(message);
  const extension = /extension "?([a-z_]+)/.exec(message)?.[1];
  if (/^(0A000|58P01)$/.test(code) && extension !== undefined) {
    return {
      message: `Postgres does not have the extension ${extension}.`,
      advice: 'Install the additional modules of Postgres on its server (postgresql-contrib).',
    };
  }
  const condition = conditions.find(
    (known) =>
      known.code.test(code) &&
      (known.text?.test(message) ?? true) &&
      (known.routine ?? error.routine) === error.routine,
  );
  if (condition === undefined) return null;
  const { summary, advice, isTransient } = condition;
  return {
    message: summary === undefined ? refused : `${summary}: ${errorText(error)}.`,
    advice,
    isTransient,
  };
}

function missingTable(message: string): DatabaseFailure {
  const table = /relation "([^"]+)"/.exec(message)?.[1] ?? 'that is needed';
  return {
    message: `Postgres does not find the table ${table} in the search path.`,
    advice:
      'Run `npx crm-data-service migrate` if the schema is missing. Otherwise correct the search_path of the ' +
      "role of DATABASE_URL or of its `options`, or grant `usage` on the table's schema.",
  };
}

function missingRight(message: string, refused: string, rights: TableRights): DatabaseFailure {
  const policyTable = /row-level security policy for table "([^"]+)"/.exec(message)?.[1];
  if (policyTable !== undefined) {
    return {
      message: `A row-level security policy may hide rows of the table ${policyTable}.`,
      advice: 'All rows must be visible: `alter role … bypassrls` for the role of DATABASE_URL.',
    };
  }
  const table = /permission denied for table (\S+)/.exec(message)?.[1] ?? '';
  if (table !== '') {
    const needed = rights[table] ?? 'select';
    return {
      message: refused,
      advice: `Grant it to the role of DATABASE_URL: \`grant ${needed} on ${table} to …\`.`,
    };
  }
  const schema = /permission denied for schema (\S+)/.exec(message)?.[1];
  const grant =
    schema !== undefined
      ? `\`grant usage, create on schema ${schema} to …\``
      : /extension/.test(message)
        ? '`grant create on database … to …`, or create the extension as a superuser'
        : "or use the tables' owner";
  return {
    message: refused,
    advice: `Grant the role of DATABASE_URL what is missing: ${grant}.`,
  };
}
