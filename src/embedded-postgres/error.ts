import { OperatorError } from '../operator-error.ts';

/** Why the embedded Postgres cannot run here, as the rest of a sentence. */
export class EmbeddedPostgresError extends OperatorError {
  override readonly name = 'EmbeddedPostgresError';

  constructor(reason: string) {
    super(
      `The embedded Postgres cannot start: ${reason}. ` +
        'Set DATABASE_URL=postgres://user:password@host:5432/database to use one of your own.',
    );
  }
}
