import { createRequire } from 'node:module';
import { OperatorError } from '../../src/process/operator-error.ts';

export type ChdbResult = { text(): string; bytes(): Uint8Array };

/** The used part of the package. Types are checked without it. */
type Chdb = {
  readonly Session: new (
    directory: string | undefined,
  ) => {
    queryAsync(statement: string): Promise<unknown>;
    queryBindAsync(
      statement: string,
      values: Readonly<Record<string, string>>,
      options: { readonly format: string },
    ): Promise<ChdbResult>;
    close(): void;
  };
  drainPending(): Promise<void>;
};

/** Loads the embedded ClickHouse, which is not installed with the project. */
export function loadChdb(): Chdb {
  try {
    return createRequire(import.meta.url)('chdb') as Chdb;
  } catch (error) {
    const { message } = error as Error;
    throw new OperatorError(
      `ClickHouse cannot be loaded: ${message}\nnpm ci --prefix test/clickhouse installs it, on Linux with glibc and on macOS.`,
    );
  }
}
