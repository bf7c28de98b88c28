import { OperatorError } from '../process/operator-error.ts';

/** The embedded Postgres cannot run. `reason` completes the message. */
export class EmbeddedPostgresError extends OperatorError {
  override readonly name = 'EmbeddedPostgresError';

  constructor(reason: string) {
    super(
      `The embedded Postgres cannot start: ${reason}. ` +
        'Set DATABASE_URL=postgres://user:password@host:5432/database to use one of your own.',
    );
  }
}
